"""A recording begun with a key while a real training is watched, followed while it is written, and read afterwards."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gputop.recording.reader import Recording
from gputop.records import Step, Verdict
from tests.cli.processes import environment, gputop
from tests.e2e.test_whole_path import training
from tests.tui.ptys import Terminal, left_properly


@pytest.mark.slow
def test_what_r_records_is_followed_while_written_and_read_afterwards(short_dir: Path, tmp_path: Path) -> None:
    env = environment(short_dir)
    with training(short_dir, "slow_loader"), Terminal(size=(100, 30), module="gputop", env=env, cwd=tmp_path) as live:
        live.shows("INPUT")
        live.press(b"R")
        live.shows("● REC 10 s")
        (file,) = tmp_path.glob("*.gputop")
        with Terminal("replay", str(file), size=(100, 30), module="gputop", env=env, cwd=tmp_path) as follower:
            follower.shows("REPLAY")
            follower.shows("loop.py")
            follower.press(b"q")
            assert follower.ended()[0] == 0
        live.press(b"R")
        live.shows("recorded into")
        assert [one.name for one in tmp_path.iterdir()] == [file.name], "one plain file is left"
        live.press(b"q")
        assert live.ended()[0] == 0
        assert left_properly(live.seen)
    recording = Recording(file)
    steps = [one for one in recording.records() if isinstance(one, Step)]
    assert len(steps) > 20
    assert [one.n for one in steps] == list(range(steps[0].n, steps[0].n + len(steps))), "none is missing"
    assert any(isinstance(one, Verdict) and one.family == "input" for one in recording.records())
    recording.close()
    told = gputop("report", str(file), directory=short_dir)
    assert told.returncode == 0
    assert "INPUT" in told.stdout


@pytest.mark.slow
def test_while_the_terminal_has_stopped_reading_the_feed_and_a_recording_go_on(short_dir: Path, tmp_path: Path) -> None:
    env = environment(short_dir)
    words = ("demo", "input-workers", "--refresh", "0.1")
    with Terminal(*words, size=(200, 60), module="gputop", env=env, cwd=tmp_path) as live:
        live.wait_for(b"simulated")
        live.press(b"R")
        live.wait_for(b"recording into")
        (file,) = tmp_path.glob("*.gputop")
        live.press(b"w" * 60)  # each answer is some kilobytes, and nobody reads: all that lies between fills up
        began = steps_in(file)
        deadline = time.monotonic() + 60
        while steps_in(file) < began + 20 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert steps_in(file) >= began + 20
        live.press(b"q")
        live.ended()
        assert left_properly(live.seen)


def steps_in(file: Path) -> int:
    """Training steps that a recording holds, also while it is written."""
    recording = Recording(file)
    try:
        return recording.info().steps
    finally:
        recording.close()
