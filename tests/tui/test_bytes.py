"""What the time axis costs on a real terminal: bytes are the same on every machine, so they may gate."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tui.ptys import Terminal


@pytest.mark.parametrize(("state", "budget"), [("replay", 1500), ("recording", 1500)])
def test_a_replay_at_its_own_speed_costs_what_a_live_picture_may(state: str, budget: int) -> None:
    """Ten looks a second of the wall, each a second of the run later: bytes are counted per second of the run."""
    ticks = 15
    with Terminal(state, "refresh=0.1", "move=1", size=(120, 40)) as terminal:
        terminal.wait_for(b"confidence")
        terminal.read(0.5)
        wrote = len(terminal.read(ticks * 0.1))
    print(f"{state}: {wrote / ticks:.0f} bytes a second")
    assert 0 < wrote / ticks < budget


@pytest.mark.parametrize(("state", "key", "budget"), [("job_of_64", b"a", 2500), ("many_gpus", b"g", 3000)])
def test_a_page_costs_what_its_figures_do(state: str, key: bytes, budget: int) -> None:
    ticks = 15
    with Terminal(state, "refresh=0.1", "move=1", size=(120, 40)) as terminal:
        terminal.wait_for(b"confidence")
        terminal.press(key)
        terminal.read(0.7)
        wrote = len(terminal.read(ticks * 0.1))
    print(f"{key.decode()}: {wrote / ticks:.0f} bytes a second")
    assert wrote / ticks < budget


def test_a_picture_paused_live_costs_little_while_time_goes_on() -> None:
    with Terminal("view", "refresh=0.1", "move=1", size=(120, 40)) as terminal:
        terminal.wait_for(b"confidence")
        terminal.press(b" ")
        terminal.shows(lambda lines: "behind" in lines[0])
        terminal.read(0.5)
        assert len(terminal.read(1.0)) < 10 * 100
        terminal.press(b" ")
        terminal.shows(lambda lines: "● live" in lines[0])


def test_a_paused_replay_costs_nothing() -> None:
    with Terminal("replay_paused", "refresh=0.1", "move=1", size=(120, 40)) as terminal:
        terminal.wait_for(b"confidence")
        terminal.press(b" ")
        terminal.settle(0.7)
        assert terminal.read(1.0) == b""


def test_the_page_of_recordings_costs_nothing_while_none_is_new(tmp_path: Path) -> None:
    env = {"XDG_STATE_HOME": str(tmp_path)}
    with Terminal("live", "refresh=0.1", "move=1", f"cwd={tmp_path}", size=(120, 40), env=env) as terminal:
        terminal.wait_for(b"confidence")
        terminal.press(b"o")
        terminal.wait_for(b"no recording here yet")
        terminal.read(0.5)
        assert len(terminal.read(1.0)) < 10 * 100
        terminal.press(b"\x1b")
        terminal.wait_for(b"confidence")
        assert terminal.read(60, b"\x1b"), "the picture moves on"
