"""Steadiness: a verdict holds under noise, changes when the run does, and says how long it has held."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from random import Random

import pytest

from gputop.diagnosis.steady import AWAITED, Judge
from gputop.records import AnyRecord, Host, Loader, Process, Run, Step, Verdict, Worker
from gputop.timeline import Timeline
from tests.diagnosis.builder import HOST, MS, PID, RUN_ID, T0, S

Phases = dict[str, float]

INPUT: Phases = {"data": 60, "forward": 12, "backward": 20, "optimizer": 4}
HOST_WORK: Phases = {"data": 1, "forward": 12, "backward": 20, "optimizer": 4, "other": 60}
NEAR_TIE: Phases = {"data": 40, "forward": 12, "backward": 20, "optimizer": 4, "other": 38}


def stream(*parts: tuple[float, Phases], noise: float = 0.05, seed: int = 3) -> Iterator[Step]:
    """Steps of a run in parts, each (seconds, phases in ms); every phase trembles by itself by `noise`."""
    random, t, n = Random(seed), T0, 0
    for seconds, phases in parts:
        until = t + round(seconds * S)
        while t < until:
            spent = {name: round(ms * MS * (1 + noise * random.uniform(-1, 1))) for name, ms in phases.items()}
            length = sum(spent.values())
            spent.pop("other", None)
            yield Step(t=t, run_id=RUN_ID, n=n, dur_ns=length, phases_ns=spent, had_backward=True)
            t, n = t + length, n + 1


def judged(steps: Iterator[Step], judge: Judge | None = None) -> list[Verdict]:
    """A verdict a second, as a viewer asks for them."""
    judge, timeline = judge or Judge(), Timeline()
    start: AnyRecord = Run(t=T0, run_id=RUN_ID, pid=PID, host=HOST, device="cpu")
    timeline.add(start)
    verdicts, due = [], T0 + S
    for step in steps:
        while step.t + step.dur_ns > due:
            verdicts.append(judge.update(timeline.window(RUN_ID, due)))
            due += S
        timeline.add(step)
    return verdicts


def changes(verdicts: list[Verdict]) -> int:
    """How often the cause changed after the first verdict."""
    causes = [one.cause for one in verdicts if one.cause != "warmup"]
    return sum(before != after for before, after in pairwise(causes))


def test_no_verdict_before_ten_seconds_and_then_one() -> None:
    said = judged(stream((15, INPUT)))
    assert {one.cause for one in said[:9]} == {"warmup"}
    assert all(one.tentative for one in said[:9])
    assert said[10].cause == "input-workers"


def test_five_steps_are_waited_for_where_they_take_longer_than_ten_seconds() -> None:
    slow = {name: 50 * ms for name, ms in INPUT.items()}
    said = judged(stream((100, slow)))
    named = [one for one in said if one.cause == "input-workers"]
    assert named
    assert (named[0].t - T0) / S >= 5 * 4.8 - 2


def test_a_verdict_is_tentative_until_twenty_steps() -> None:
    slow = {name: 10 * ms for name, ms in INPUT.items()}
    said = judged(stream((40, slow)))
    after = {one.tentative for one in said if one.t > T0 + 25 * S}
    assert next(one.tentative for one in said if one.cause == "input-workers")
    assert after == {None}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("phases", [INPUT, HOST_WORK, NEAR_TIE])
def test_steady_input_with_thirty_percent_noise_changes_at_most_once_a_minute(phases: Phases, seed: int) -> None:
    said = judged(stream((130, phases), noise=0.3, seed=seed))
    assert changes(said) <= 2


@pytest.mark.parametrize("seed", range(3))
def test_a_real_change_is_noticed_once_it_fills_most_of_the_window(seed: int) -> None:
    said = judged(stream((30, INPUT), (40, HOST_WORK), noise=0.2, seed=seed))
    first = next(one.t for one in said if one.cause == "host-work")
    assert (first - T0) / S <= 30 + 12


def test_twice_the_share_takes_over_without_waiting_for_the_whole_window() -> None:
    heavy = HOST_WORK | {"other": 400.0}
    said = judged(stream((30, INPUT), (20, heavy)))
    first = next(one.t for one in said if one.cause == "host-work")
    assert (first - T0) / S <= 30 + 8


def test_since_says_how_long_the_verdict_has_held() -> None:
    said = judged(stream((30, INPUT), (40, HOST_WORK)))
    held = [one for one in said if one.cause == "input-workers"]
    changed = [one for one in said if one.cause == "host-work"]
    assert {one.since_ns for one in held} == {held[0].t}
    assert {one.since_ns for one in changed} == {changed[0].t}


def test_segments_cover_the_time_without_holes() -> None:
    judge = Judge()
    judged(stream((30, INPUT), (40, HOST_WORK)), judge)
    segments = judge.segments
    assert [one.cause for one in segments] == ["warmup", "input-workers", "host-work"]
    assert all(before.to_ns == after.from_ns for before, after in pairwise(segments))


def test_figures_move_while_the_cause_holds() -> None:
    said = judged(stream((40, INPUT), noise=0.3))
    held = [one for one in said if one.cause == "input-workers"]
    assert len({one.headline for one in held}) > 3


def test_a_cause_that_wins_once_does_not_take_over() -> None:
    flash = HOST_WORK | {"other": 90.0}
    said = judged(stream((30, INPUT), (1.5, flash), (30, INPUT)))
    assert "host-work" not in {one.cause for one in said}


def test_what_was_said_before_the_runs_processes_were_sampled_gives_way_at_once_to_what_they_show() -> None:
    timeline, judge = Timeline(), Judge()
    timeline.add(Run(t=T0, run_id=RUN_ID, pid=PID, host=HOST, device="cpu", cores=2, cores_allowed=2))
    timeline.add(Loader(t=T0, run_id=RUN_ID, loader_id=1, num_workers=2, batch_size=64))
    for step in stream((40, INPUT)):
        timeline.add(step)
    met = T0 + 40 * S
    assert judge.update(timeline.window(RUN_ID, met)).cause == "input-workers"
    busy = [Worker(pid=PID + n, cpu_pct=90.0, wait_pct=30.0) for n in (1, 2)]
    timeline.add(
        Process(t=met + S, host=HOST, pid=PID, run_id=RUN_ID, cpu_pct=15.0, main_thread_cpu_pct=15.0,
                main_thread_wait_pct=30.0, tree_cpu_pct=195.0, cores_allowed=2, workers=busy)
    )  # fmt: skip
    timeline.add(Host(t=met + S, host=HOST, cpu_pct=97.0, cores=2))
    assert judge.update(timeline.window(RUN_ID, met + S)).cause == "input-cpu"


@pytest.mark.parametrize("episode", ["eval", "checkpoint"])
def test_steps_with_an_evaluation_in_them_make_no_single_accident_usual(episode: str) -> None:
    """A loop that was held up once, for ten seconds (a signal, a file server), is judged by its other steps."""

    def steps() -> Iterator[Step]:
        t = T0
        for n in range(900):
            spent = {"data": 16 * MS, "forward": 2 * MS, "backward": 2 * MS, "optimizer": 2 * MS}
            if n % 20 == 19:
                spent[episode] = 85 * MS
            if n == 310:
                spent["data"] = 10 * S
            length = sum(spent.values())
            yield Step(t=t, run_id=RUN_ID, n=n, dur_ns=length, phases_ns=spent, had_backward=True)
            t += length

    for one in judged(steps())[12:]:
        if one.cause != "stalled":
            assert one.headline.startswith("data wait takes 16 of 2"), one.headline


def test_what_is_said_of_a_run_before_its_processes_are_sampled_is_tentative() -> None:
    """For five seconds: where they can't be sampled, that is all there will be."""
    timeline = Timeline()
    timeline.add(Run(t=T0, run_id=RUN_ID, pid=PID, host=HOST, device="cpu", cores=2, cores_allowed=2))
    timeline.add(Loader(t=T0, run_id=RUN_ID, loader_id=1, num_workers=2, batch_size=64))
    for step in stream((60, INPUT)):
        timeline.add(step)
    met = T0 + 40 * S
    seen, unseen, told = Judge(awaits=True), Judge(awaits=True), Judge()
    for judge in (seen, unseen):
        first = judge.update(timeline.window(RUN_ID, met))
        assert first.cause == "input-workers"
        assert first.tentative
        assert AWAITED in first.notices
    assert not told.update(timeline.window(RUN_ID, met)).tentative
    assert [unseen.update(timeline.window(RUN_ID, met + n * S)).tentative for n in (1, 4, 5)] == [True, True, None]
    timeline.add(Process(t=met + S, host=HOST, pid=PID, run_id=RUN_ID, cpu_pct=15.0, tree_cpu_pct=195.0))
    later = seen.update(timeline.window(RUN_ID, met + S))
    assert not later.tentative
    assert AWAITED not in later.notices
