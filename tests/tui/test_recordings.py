"""The recordings at hand: found, told apart from what can't be read, opened beside what is live, and left again."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from gputop.recording.errors import Unreadable
from gputop.tui import shelf
from gputop.tui.app import GputopApp
from gputop.tui.screens import Page
from tests.tui import views
from tests.tui.ptys import Terminal
from tests.tui.test_app import drive, text_of
from tests.tui.test_replay import filled


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a recording, a file that is none, and an empty one."""
    folder = tmp_path_factory.mktemp("shelf")
    filled(folder / "run.gputop")
    (folder / "none.gputop").write_bytes(b"not a recording at all, but long enough to be looked at")
    (folder / "empty.gputop").write_bytes(b"")
    (folder / "other.txt").write_text("")
    os.utime(folder / "run.gputop", (2e9, 2e9))
    return folder


def test_recordings_are_found_the_newest_first_and_what_ails_the_others_is_told(place: Path) -> None:
    looks = list(shelf.found([place, place, place / "no-such"]))
    assert Path(looks[0][0].path).name == "run.gputop"
    assert len(looks[0]) == 3
    assert looks[0][0].steps is None
    run, *others = looks[-1]
    assert run.steps is not None
    assert run.steps > 100
    assert run.long_ns is not None
    assert 100e9 < run.long_ns < 140e9
    assert run.simulated
    assert run.state == ""
    assert run.scripts
    assert all(kept.fault for kept in others)
    assert not any(str(place) in kept.fault for kept in others)


async def until(pilot: Pilot[int], true: Callable[[], bool]) -> None:
    for _ in range(400):
        if true():
            return
        await pilot.pause()
        await asyncio.sleep(0.005)
    raise AssertionError("it never came")


def test_enter_plays_one_beside_what_is_live_and_esc_leads_back(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("o")
        await until(pilot, lambda: "not readable" in text_of(app) and "simulated" in text_of(app))
        assert "run.gputop" in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(app.screen, Page))
        assert "REPLAY" in text_of(app)
        assert "esc back" in text_of(app)
        assert "run.gputop" in app.sight().view.source
        assert picture.closed == 0
        await pilot.press("space")
        assert picture.asked == []
        await pilot.press("escape")
        await until(pilot, lambda: "REPLAY" not in text_of(app))
        assert "gpu-box-3" in text_of(app)
        assert picture.closed == 0

    drive(views.live(), act)


def test_a_recording_that_cannot_be_opened_says_why(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    monkeypatch.setenv("XDG_STATE_HOME", str(place / "state"))

    def refuse(path: Path) -> Any:
        raise Unreadable("the disk gave up")

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("o")
        await until(pilot, lambda: "not readable" in text_of(app))
        monkeypatch.setattr(shelf, "open_recording", refuse)
        await pilot.press("enter")
        await until(pilot, lambda: "the disk gave up" in text_of(app))
        assert isinstance(app.screen, Page)
        await pilot.press("down", "enter")
        assert isinstance(app.screen, Page)

    drive(views.live(), act)


def test_where_there_is_none_it_says_how_to_make_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("o")
        await until(pilot, lambda: "no recording here yet: R records" in text_of(app))

    drive(views.live(), act)


def test_quitting_while_a_recording_is_shown_leaves_nothing_behind(place: Path) -> None:
    words = ("view", f"cwd={place}")
    with Terminal(*words, size=(100, 30), env={"XDG_STATE_HOME": str(place / "state")}) as terminal:
        terminal.wait_for(b"confidence")
        terminal.press(b"o")
        terminal.wait_for(b"simulated")
        terminal.press(b"\r")
        terminal.wait_for(b"REPLAY")
        terminal.press(b"q")
        code, took = terminal.ended()
    assert code == 0
    assert took < 5.0
