"""Help where one is: tooltips for the mouse that rests, and `?` for the panel or page in front."""

from __future__ import annotations

import asyncio

import pytest
from textual.pilot import Pilot
from textual.widgets import Tooltip

from gputop.tui import hints
from gputop.tui.app import GputopApp
from gputop.tui.draw import overview
from gputop.tui.lines import plain
from gputop.tui.options import Options
from gputop.tui.pane import Pane
from gputop.tui.terminal import Terminal
from tests.tui import views
from tests.tui.test_app import drive, text_of
from tests.tui.test_recordings import until


def place_of(app: GputopApp, pane: str, words: str) -> tuple[int, int]:
    """Where these words stand on the screen."""
    shown = app.screen.query_one(f"#{pane}", Pane)
    for y, line in enumerate(shown._lines):
        at = plain(line).find(words)
        if at >= 0:
            return shown.region.x + at, shown.region.y + y
    raise AssertionError(f"{words!r} is not in {pane}")


async def rest_on(app: GputopApp, pilot: Pilot[int], pane: str, words: str) -> str:
    """The tooltip of a mouse that rests there; "" for none."""
    app.TOOLTIP_DELAY = 0.001
    tip = app.screen.get_child_by_type(Tooltip)
    tip.display = False  # as the first move of a mouse does
    await pilot.hover(offset=place_of(app, pane, words))
    await pilot.pause()
    if app.screen.query_one(f"#{pane}", Pane).tooltip is None:
        return ""
    await until(pilot, lambda: tip.display)
    return str(tip.visual)


@pytest.mark.parametrize("ascii_only", [False, True])
def test_the_mouse_that_rests_is_told_what_it_rests_on(ascii_only: bool) -> None:
    async def go() -> None:
        app = GputopApp(views.Canned(views.view()), Options(refresh=3600), Terminal("truecolor", ascii_only))
        async with app.run_test(size=(80, 24), tooltips=True) as pilot:
            await pilot.pause()
            assert "longest step" in await rest_on(app, pilot, "labels", "p95")
            assert "utilization" in await rest_on(app, pilot, "labels", "GPU 0")
            assert "holds the training back" in await rest_on(app, pilot, "verdict", "INPUT-WORKERS")
            assert "waiting for the next batch" in await rest_on(app, pilot, "ledger", "data")
            assert "backward pass" in await rest_on(app, pilot, "ledger", "bwd")
            assert await rest_on(app, pilot, "footer", "help") == ""
            assert app.screen.get_child_by_type(Tooltip).styles.border.top[0] == ("ascii" if ascii_only else "round")

    asyncio.run(go())


def test_every_part_of_the_overview_can_say_what_it_is() -> None:
    silent = {"identity", "footer", "labels", "figures", "history", "detail"}  # the last four: by their rows
    assert {name for name in overview.NAMES if name not in hints.PARTS | hints.ELSEWHERE} == silent


def test_help_begins_with_what_is_in_front() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("question_mark")
        assert hints.PARTS["peak"] in text_of(app)
        await pilot.press("question_mark", "z", "down", "question_mark")
        assert "here: zoom" in text_of(app)
        assert hints.PARTS["p95"] in text_of(app)
        assert hints.PARTS["peak"] not in text_of(app)
        await pilot.press("escape")
        assert "p95: longest step" in text_of(app)

    drive(views.view(), act)


def test_what_help_says_of_the_screen_fits_80_columns() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("question_mark")
        assert all(text in text_of(app) for text in hints.PARTS.values())
        assert "q  Ctrl+C" in text_of(app)

    drive(views.view(), act, size=(80, 24))
