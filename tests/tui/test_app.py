"""The app driven by keys, without a terminal: what is shown, selected, paused and kept."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot
from textual.strip import Strip

from gputop.tui import keeping
from gputop.tui.app import GputopApp
from gputop.tui.lines import plain
from gputop.tui.options import Options
from gputop.tui.pane import Pane
from gputop.tui.screens import Page
from gputop.tui.terminal import Terminal
from gputop.view import View
from tests.tui import views


class Clock:
    """Monotonic seconds that only tests move."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def text_of(app: GputopApp) -> str:
    """All that the panes in front show."""
    panes = app.screen.query(Pane)
    return "\n".join(plain(line) for pane in panes if pane.display for line in pane._lines)


def drive(
    shown: View,
    act: Callable[[GputopApp, Pilot[int], views.Canned], Any],
    size: tuple[int, int] = (120, 40),
    **options: Any,
) -> None:
    """Runs the app on a canned view and does `act` with it."""

    async def go() -> None:
        picture = views.Canned(shown)
        app = GputopApp(picture, Options(refresh=3600, **options), Terminal("truecolor", False), clock=Clock())
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(app, pilot, picture)

    asyncio.run(go())


@pytest.mark.parametrize("size", [(0, 0), (1, 1), (20, 5), (40, 8), (80, 24), (300, 100)])
def test_every_page_at_every_size(size: tuple[int, int]) -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        for key in ("w", "g", "p", "r", "i", "question_mark"):
            await pilot.press(key)
            assert isinstance(app.screen, Page)
            await pilot.press("pagedown", "end", "up", "home", "escape")
            assert not isinstance(app.screen, Page)

    drive(views.many_gpus(3, runs=views.many_runs(2).runs), act, size)


def test_a_page_left_keeps_nothing_of_what_it_drew() -> None:
    """Textual remembers widgets' caches of strips in an lru_cache; emptied, they weigh nothing."""

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        many = []
        for _ in range(3):
            for _ in range(4):
                await pilot.press("w")
            await pilot.pause()
            gc.collect()
            many.append(sum(type(thing) is Strip for thing in gc.get_objects()))
        assert many[2] - many[1] < 40, "a page of 40 lines, opened twice"

    drive(views.view(), act)


def test_a_page_key_toggles_and_switches() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("w")
        assert isinstance(app.screen, Page)
        await pilot.press("g")
        assert isinstance(app.screen, Page)
        assert app.screen.page_name == "gpus"
        assert len(app.screen_stack) == 2
        await pilot.press("g")
        assert not isinstance(app.screen, Page)

    drive(views.view(), act)


def test_tab_selects_runs_in_a_ring_and_the_choice_outlives_other_runs() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        assert "run 1 of 3" in text_of(app)
        await pilot.press("tab")
        assert "GPU-BOUND" in text_of(app)
        assert picture.asked == [("select", "r1")]
        picture.shown = msgspec.structs.replace(picture.shown, runs=picture.shown.runs[1:])
        app.tick()
        assert "run 1 of 2" in text_of(app)
        assert "GPU-BOUND" in text_of(app)
        await pilot.press("shift+tab")
        assert "HOST-WORK" in text_of(app)

    drive(views.many_runs(3), act)


def test_a_run_that_begins_beside_the_one_shown_does_not_push_it_away() -> None:
    later, shown, _ = views.many_runs(3).runs

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        app.tick()
        assert "GPU-BOUND" in text_of(app)
        picture.shown = msgspec.structs.replace(picture.shown, runs=(later, shown))
        app.tick()
        assert "run 2 of 2" in text_of(app)
        assert "GPU-BOUND" in text_of(app)
        assert picture.asked == [("select", "r1")], "steps and changes are of the one shown"
        over = msgspec.structs.replace(shown, state="ended")
        picture.shown = msgspec.structs.replace(picture.shown, runs=(later, over))
        app.tick()
        assert "run 1 of 2" in text_of(app), "nothing was picked: what trains is shown"
        assert picture.asked[1:] == [("select", None)]

    drive(msgspec.structs.replace(views.many_runs(3), runs=(shown,)), act)


def test_fast_figures_move_at_each_look_histories_with_a_column_wording_later() -> None:
    def state(app: GputopApp) -> tuple[str, str, str]:
        panes = {pane.id: "\n".join(map(plain, pane._lines)) for pane in app.screen.query(Pane)}
        return panes["pace"], panes["history"], panes["verdict"]

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        first = state(app)
        picture.shown = views.later(views.view(), 1)
        app.tick()
        second = state(app)
        assert second[0] != first[0]
        assert second[1:] == first[1:]
        picture.shown = views.later(views.view(), 3)
        app.tick()
        third = state(app)
        assert third[1] != second[1]
        assert third[2] == second[2]
        picture.shown = views.later(views.view(), 6)
        app.tick()
        assert state(app)[2] != third[2]

    drive(views.view(), act)


def test_a_new_cause_is_shown_at_once() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        picture.shown = views.gpu_bound()
        app.tick()
        assert "GPU-BOUND" in text_of(app)

    drive(views.view(), act)


def test_an_unchanged_line_keeps_its_strip() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        pane = app.screen.query_one("#figures", Pane)
        before = [pane.render_line(y) for y in range(3)]
        picture.shown = views.later(views.view(), 1)
        app.tick()
        after = [pane.render_line(y) for y in range(3)]
        assert [a is b for a, b in zip(before, after, strict=True)].count(True) >= 1
        app.tick()
        assert all(pane.render_line(y) is after[y] for y in range(3))

    drive(views.view(), act)


def test_the_verdict_is_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("y")
        assert "copied, and in" in text_of(app)
        await pilot.press("s")
        assert "saved" in text_of(app)

    drive(views.view(), act)
    text = (tmp_path / "gputop" / "verdict.txt").read_text(encoding="utf-8")
    assert "train.py on gpu-box-3: input-workers" in text
    assert "-> num_workers 4 → 10" in text
    assert "num_workers=10" in text
    assert [path.suffix for path in (tmp_path / "gputop").iterdir()].count(".svg") == 1


def test_keeping_says_why_it_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(blocked))

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("s")
        assert "no snapshot:" in text_of(app)

    drive(views.view(), act)


def test_a_long_path_loses_whole_folders_not_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert keeping.short(Path("/home/ada/x/screen.svg")) == "~/x/screen.svg"
    saved = Path("/home/ada/.local/state/gputop/screen-20260921-141000.svg")
    assert keeping.short(saved) == "…/state/gputop/screen-20260921-141000.svg"
    assert keeping.short(Path("/" + "x" * 60)) == "…" + "x" * 43


def test_q_asks_to_leave_with_success() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("q")
        assert app.return_value == 0

    drive(views.view(), act)


def test_markup_from_outside_is_shown_not_obeyed() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        assert "[bold red]x[/] \\x1b[2J" in text_of(app)

    verdict = views.input_verdict(headline="[bold red]x[/] \x1b[2J")
    drive(views.view(runs=(views.run_view(verdict=verdict),)), act)


def test_command_lines_and_users_can_be_hidden() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        for key in ("p", "g", "r", "i"):
            await pilot.press(key)
            assert "--epochs" not in text_of(app)
            assert "ada" not in text_of(app).split()

    drive(views.view(), act, no_cmdline=True)
