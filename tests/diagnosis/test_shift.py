"""A run that changes: the new cause is noticed within some steps; noise, beats and saves are no change."""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

import pytest

from gputop.diagnosis.loop import read_loop
from gputop.diagnosis.shift import since_change
from gputop.records import AnyRecord, Step
from gputop.report.judged import judge_trace
from tests.diagnosis.builder import MS, RUN_ID, T0, S, low, samples, trace, window, workers


class Kind(NamedTuple):
    """How a stretch of steps is: ms by phase, the idle time of some, the queue, the device's utilization."""

    phases: dict[str, float]
    idle: dict[str, float]
    queue: float
    util: float


MODEL = {"data": 1.0, "forward": 30.0, "backward": 45.0, "optimizer": 8.0}
BUSY = Kind(MODEL, {"data": 0.5}, 0.05, 97)
WAITS = Kind(MODEL | {"data": 120.0}, {"data": 118.0}, 0.5, 40)
WORKS = Kind(MODEL | {"metrics": 70.0}, {"data": 0.5, "metrics": 68.0}, 0.5, 55)

CHANGES = [
    (BUSY, WAITS, "input-workers"), (WAITS, BUSY, "gpu-bound"), (WAITS, WORKS, "host-work"),
    (WORKS, WAITS, "input-workers"),
]  # fmt: skip

LENGTH_S = 30


def changing(before: Kind, after: Kind, scale: float) -> tuple[list[AnyRecord], int]:
    """A run that changes in the middle, and the moment, epoch ns."""
    random, t, steps, moment = Random(1), T0, list[AnyRecord](), 0
    length = round(LENGTH_S * max(1.0, scale / 2)) * S
    while t < T0 + 2 * length:
        kind = before if t < T0 + length else after
        moment = moment or (t if kind is after else 0)
        wide = scale * MS * (1 + 0.1 * random.uniform(-1, 1))
        columns = {name: round(ms * wide) for name, ms in kind.phases.items()}
        idle = {name: round(ms * wide) for name, ms in kind.idle.items()}
        dur = sum(columns.values())
        steps.append(Step(t=t, run_id=RUN_ID, n=len(steps), dur_ns=dur, phases_ns=columns, gpu_idle_ns=idle,
                          queue_empty=kind.queue))  # fmt: skip
        t += dur
    gpu = low() | {"util_pct": lambda i: (before if i * S < length else after).util}
    host = {"cores": 16, "cpu_pct": 30}
    process = {"main_thread_cpu_pct": 60, "cpu_pct": 60, "workers": workers(2, 97)}
    return trace({}, n=0, loader={"num_workers": 2}) + steps + samples(T0, t, 1.0, gpu, host, process), moment


@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize(("before", "after", "cause"), CHANGES)
def test_a_change_is_noticed_within_three_judgements_and_five_new_steps(
    before: Kind, after: Kind, cause: str, scale: float
) -> None:
    records, moment = changing(before, after, scale)
    segments = judge_trace(records, "test").watch.judges[RUN_ID].segments
    (found,) = [segment for segment in segments if segment.from_ns > moment]
    assert found.cause == cause
    step_s = scale * sum(after.phases.values()) / 1000
    assert (found.from_ns - moment) / S <= max(3.0, 5 * step_s) + 1.5


def unchanged(records: list[AnyRecord]) -> bool:
    seen = window(records)
    loop = read_loop(seen)
    assert loop is not None
    return since_change(seen, loop) is None


STEADY: dict[str, dict[str, Any]] = {
    "noise of 30 %": {"phases": MODEL, "jitter": 0.3},
    "workers that take turns": {"phases": MODEL, "each": lambda i: {"phases": {"data": 300.0 if i % 8 == 0 else 0.4}}},
    "a save now and then": {"phases": MODEL, "each": lambda i: {"phases": {"checkpoint": 900.0} if i == 40 else {}}},
    "a validation at first": {"phases": MODEL, "each": lambda i: {"phases": {"eval": 4000.0} if i < 20 else {}}},
    "logging every 50 steps": {"phases": MODEL, "each": lambda i: {"other_ms": 500.0 if i % 50 == 0 else 0.0}},
    "one odd step at the end": {"phases": MODEL, "each": lambda i: {"other_ms": 3000.0 if i == 119 else 0.0}},
    "longer and longer inputs": {"phases": MODEL, "each": lambda i: {"phases": {"forward": 30.0 + i}}},
}  # fmt: skip


@pytest.mark.parametrize("name", STEADY)
def test_what_is_no_change(name: str) -> None:
    assert unchanged(trace(**STEADY[name]))


def test_a_clean_step_in_length_is_a_change() -> None:
    assert not unchanged(trace(MODEL, each=lambda i: {"phases": {"data": 1.0 if i < 80 else 90.0}}))
