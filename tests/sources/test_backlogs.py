"""Where recording began, each publisher's backlog came at once: it is told in its own time."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gputop.cli import retold
from gputop.recording.reader import Recording
from gputop.recording.writer import Writer
from gputop.records import Event, Host, Record, Run, Step
from gputop.sources.reel import Reel

S = 1_000_000_000
T0 = 1_760_000_000 * S
NAMES = ("a", "b", "c")
LIVE = 100
"""Seconds that the trainings ran for when they were first heard."""


def run(name: str) -> Run:
    return Run(t=T0, run_id=name, pid=ord(name), host="h", script=f"{name}.py")


def step(name: str, n: int) -> Step:
    phases = {"data": 8 * S // 100, "backward": S // 100}
    return Step(t=T0 + n * S // 10, run_id=name, n=n, dur_ns=S // 10, phases_ns=phases, had_backward=True, loader_id=0)


def recorded(path: Path, *, bites: bool, old_event: bool) -> Recording:
    """A sample of now, the backlogs one after the other (in one transaction, or one each), then a minute as it goes."""
    writer = Writer(path, now_ns=T0 + LIVE * S)
    first: list[Record] = [Host(t=T0 + LIVE * S, host="h", cpu_pct=50.0) for _ in range(3)]
    for name in NAMES:
        first += [run(name)]
        if old_event:
            first += [Event(t=T0 - 3600 * S, run_id=name, kind="gc", dur_ns=1)]
        first += [step(name, n) for n in range(10 * LIVE)]
        if bites:
            for one in first:
                writer.add(one)
            writer.commit(T0 + LIVE * S)
            first = []
    for second in range(LIVE, LIVE + 60):
        live = [step(name, n) for n in range(10 * second, 10 * second + 10) for name in NAMES]
        for one in [*first, *live]:
            writer.add(one)
        writer.commit(T0 + (second + 1) * S)
        first = []
    writer.close(T0 + 160 * S)
    return Recording(path)


@pytest.mark.parametrize("old_event", [False, True], ids=["two minutes", "an hour back"])
@pytest.mark.parametrize("bites", [False, True], ids=["at once", "one by one"])
def test_at_each_moment_of_the_backlogs_every_run_has_come_as_far(tmp_path: Path, bites: bool, old_event: bool) -> None:
    recording = recorded(tmp_path / "a.gputop", bites=bites, old_event=old_event)
    reel, seen, counts = Reel(recording), [], dict.fromkeys(NAMES, 0)
    for second in range(161):
        found = reel.upto(T0 + second * S)
        seen += found
        for one in found:
            if isinstance(one, Step):
                counts[one.run_id] += 1
        assert counts == dict.fromkeys(NAMES, 10 * second)
    assert len(seen) == recording.info().records
    recording.close()


def test_a_recording_of_many_trainings_that_ran_already_is_told_from_their_beginning(tmp_path: Path) -> None:
    recording = recorded(tmp_path / "a.gputop", bites=True, old_event=False)
    told = list(retold.lines(recording, recording.info()))
    verdicts = [line for line in told if ".py" in line]
    assert not [line for line in verdicts if "UNKNOWN: no training step" in line]
    soon = time.strftime("%H:%M:%S", time.localtime(T0 / S + 15))
    for name in NAMES:
        mine = [line.split(" ")[0] for line in verdicts if f"{name}.py" in line]
        assert mine[0] <= soon
    recording.close()
