"""A window reaches back over a whole period of what comes every so many steps, on every rank of the job."""

from __future__ import annotations

import msgspec
import pytest

from gputop.records import Run, Step
from gputop.timeline import Timeline
from gputop.tracks import WINDOW_MAX_STEPS, WINDOW_STEPS

MS = 1_000_000


def trained(every: int, *, count: int, step_ms: int = 200, save_ms: int = 3000, run_id: str = "r0") -> list[Step]:
    """Steps of which each `every`-th saves (0: none), one after the other."""
    made, t = [], 0
    for n in range(count):
        saves = every and n % every == every - 1
        phases = {"forward": step_ms * MS} | ({"checkpoint": save_ms * MS} if saves else {})
        made.append(Step(t=t, run_id=run_id, n=n, dur_ns=sum(phases.values()), phases_ns=phases, had_backward=True))
        t += (step_ms + (save_ms if every and n % every == every - 1 else 0)) * MS
    return made


def job(*ranks: list[Step]) -> Timeline:
    timeline = Timeline()
    for rank, steps in enumerate(ranks):
        timeline.add(
            Run(t=0, run_id=f"r{rank}", pid=rank, host="h", rank=rank, world_size=len(ranks), script="train.py")
        )
        for step in steps:
            timeline.add(msgspec.structs.replace(step, run_id=f"r{rank}"))
    return timeline


def end_of(timeline: Timeline) -> int:
    return max(run.last_end or 0 for run in timeline.runs.values())


def test_without_any_a_window_is_as_long_as_ever() -> None:
    timeline = job(trained(0, count=120))
    assert len(timeline.window("r0", end_of(timeline)).steps) < 60


@pytest.mark.parametrize("count", [115, 119, 130])
def test_it_begins_with_the_last_save_but_one(count: int) -> None:
    timeline = job(trained(40, count=count))
    seen = timeline.window("r0", end_of(timeline)).steps
    saves = [step.n for step in seen if "checkpoint" in step.phases_ns]
    assert len(saves) == 2
    assert seen[0].n == saves[0]


def test_what_one_rank_alone_does_lengthens_the_windows_of_all() -> None:
    timeline = job(trained(40, count=115), trained(0, count=115, step_ms=275))
    for rank in ("r0", "r1"):
        window = timeline.window(rank, end_of(timeline))
        assert window.own is not None
        for steps in (window.steps, window.peers[0].steps, window.own.steps):
            assert len(steps) > 40


def test_a_period_that_no_window_can_hold_changes_nothing() -> None:
    fast = job(trained(WINDOW_MAX_STEPS + 100, count=3 * WINDOW_MAX_STEPS, step_ms=30, save_ms=100))
    assert len(fast.window("r0", end_of(fast)).steps) < WINDOW_MAX_STEPS
    slow = job(trained(40, count=100, step_ms=4000))
    assert len(slow.window("r0", end_of(slow)).steps) <= WINDOW_STEPS + 1


def test_a_save_too_short_to_matter_is_no_episode() -> None:
    timeline = job(trained(40, count=115, save_ms=5))
    assert len(timeline.window("r0", end_of(timeline)).steps) < 60


def stalled(places: set[int], *, count: int) -> list[Step]:
    """Steps of 200 ms of which some wait 3 s more for data."""
    made, t = [], 0
    for n in range(count):
        phases = {"data": (3000 if n in places else 1) * MS, "forward": 200 * MS}
        made.append(Step(t=t, run_id="r0", n=n, dur_ns=sum(phases.values()), phases_ns=phases, had_backward=True))
        t += made[-1].dur_ns
    return made


def test_long_steps_that_come_now_and_then_are_seen_several_times() -> None:
    """What one of them costs on average is not told by the one or two of the last ten seconds."""
    timeline = job(stalled({30, 61, 80, 112, 150}, count=160))
    seen = timeline.window("r0", end_of(timeline)).steps
    assert [step.n for step in seen if step.dur_ns > 1000 * MS] == [30, 61, 80, 112, 150]
    assert seen[0].n == 30


@pytest.mark.parametrize("places", [{150}, {80, 150}, set(range(100, 160, 2))])
def test_one_or_two_long_steps_lengthen_no_window_and_no_more_do_those_that_are_usual(places: set[int]) -> None:
    timeline = job(stalled(places, count=160))
    assert len(timeline.window("r0", end_of(timeline)).steps) <= 50


def test_a_run_that_has_become_slow_has_no_long_steps() -> None:
    timeline = job(stalled(set(range(60, 200)), count=200))
    assert len(timeline.window("r0", end_of(timeline)).steps) <= WINDOW_STEPS + 1
