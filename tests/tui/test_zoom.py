"""Zoom: each panel over the whole screen, on an axis that stands still."""

from __future__ import annotations

import pytest
from textual.pilot import Pilot

from gputop.tui.app import GputopApp
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import plain
from gputop.tui.pages import zoom
from gputop.tui.screens import Page
from gputop.tui.sheet import Standing
from gputop.view import View
from tests.tui import views
from tests.tui.ptys import Terminal
from tests.tui.test_app import drive, text_of


def drawn(view: View, key: str = "", width: int = 100, height: int = 30) -> list[str]:
    made = zoom.sheet(Sight(view=view, slow=view), width, height, Standing(key=key))
    assert len(made.lines) <= height
    return [plain(line) for line in made.lines]


def test_every_panel_can_be_zoomed_and_the_arrows_choose() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("z")
        seen = []
        for _ in range(9):
            seen.append(text_of(app))
            await pilot.press("down")
        for part in ("median step of each column", "longest step", "where a step goes", "GPU 0", "highest sample",
                     "GPU memory in use", "all cores together", "verdict over time"):  # fmt: skip
            assert any(part in shown for shown in seen), part
        await pilot.press("up", "z")
        assert not isinstance(app.screen, Page)

    drive(views.with_segments(), act)


def test_the_axis_stands_still_while_columns_come() -> None:
    """From one column to the next only the new cell of each line differs, until the picture moves on by a sixth."""
    moves = 0
    for column in range(40):
        before = drawn(views.later(views.view(), 2 * column), "GPU 0")
        after = drawn(views.later(views.view(), 2 * column + 2), "GPU 0")
        graph = [(a, b) for a, b in zip(before[2:-5], after[2:-5], strict=True)]
        changed = {cell for a, b in graph for cell, (x, y) in enumerate(zip(a, b, strict=True)) if x != y}
        moves += len(changed) > 1
    assert moves <= 3


def test_the_clock_under_it_tells_when() -> None:
    shown = drawn(views.view(), "GPU 0")
    clock = next(line for line in shown if "14:12:00" in line)
    assert clock.index("14:13:00") - clock.index("14:12:00") == 30


def test_figures_of_what_is_in_sight() -> None:
    shown = "\n".join(drawn(views.view(), "GPU 0", 160))
    assert "least " in shown
    assert "most 90 %" in shown
    assert "each cell 2 s" in shown
    empty = "\n".join(drawn(views.view(gpus=(views.gpu_view(util_history=()),)), "GPU 0"))
    assert "nothing measured yet" in empty


@pytest.mark.parametrize("height", [1, 2, 3, 8, 9, 50])
def test_no_height_is_too_small(height: int) -> None:
    for key in ("p50", "ledger", "CPU"):
        assert drawn(views.view(), key, 40, height)


def test_a_zoomed_history_costs_no_more_than_the_overview() -> None:
    ticks = 20
    with Terminal("view", "refresh=0.1", "move=1", size=(120, 40)) as terminal:
        terminal.wait_for(b"confidence")
        terminal.press(b"z")
        terminal.wait_for(b"median step")
        terminal.read(0.5)
        wrote = len(terminal.read(ticks * 0.1))
    print(f"zoom: {wrote / ticks:.0f} bytes a second")
    assert 0 < wrote / ticks < 1500
