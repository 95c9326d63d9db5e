"""host-contention: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord, Process
from gputop.report.judged import judge_trace
from tests.diagnosis.builder import COMPUTE, HOST, RUN_ID, STARVED, T0, S, expect, low, others, trace

CAUSE = "host-contention"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "wait": lambda: trace(
        {"data": 1, "forward": 30, "backward": 50, "optimizer": 5},
        run={"device": "cpu"},
        no_gpu=True,
        host={"cpu_pct": 99, "cores": 8, "load1": 20},
        process={"cpu_pct": 300, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 42},
        extra=others("ffmpeg", 480),
    ),
    "steal": lambda: trace(
        COMPUTE,
        run={"device": "cpu"},
        no_gpu=True,
        host={"cpu_pct": 100, "cores": 4, "steal_pct": 40},
        process={"cpu_pct": 230},
    ),
    "load": lambda: trace(
        COMPUTE,
        gpu=low(45),
        host={"cpu_pct": 99, "cores": 8, "load1": 30},
        process={"cpu_pct": 60, "main_thread_cpu_pct": 50},
    ),
    "quota": lambda: trace(
        COMPUTE,
        gpu=low(45),
        host={"cpu_pct": 20, "cores": 32, "cpu_quota_cores": 2, "throttled_ns": lambda i: i * 450_000_000},
        process={"cpu_pct": 190},
    ),
    "psi others": lambda: trace(
        COMPUTE, gpu=low(40), host={"cpu_pct": 100, "cores": 8, "psi_cpu_pct": 70}, extra=others("ffmpeg", 680)
    ),
    "other process only": lambda: trace(
        COMPUTE,
        gpu=low(45),
        host={"cpu_pct": 99, "cores": 16, "load1": 48},
        process={"cpu_pct": 90, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 45},
        extra=others("make", 100, 14),
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "host-work: cpu noisy": lambda: trace(
        {"data": 1, "forward": 5, "backward": 6, "optimizer": 1},
        ms=28,
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        host={"cpu_pct": 99, "cores": 2},
        process={"cpu_pct": 55, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 20},
        extra=[],
    ),
    "input-workers: cpu run noisy": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4},
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        loader={"num_workers": 0},
        host={"cpu_pct": 99, "cores": 2},
        process={"cpu_pct": 55, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 15},
    ),
    "input-cpu: no workers listed": lambda: trace(
        STARVED, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 98, "cores": 8, "iowait_pct": 1}
    ),
    "cpu-bound: plain": lambda: trace(
        COMPUTE,
        run={"device": "cpu", "cores_allowed": 8},
        no_gpu=True,
        host={"cpu_pct": 95, "cores": 8},
        process={"cpu_pct": 760},
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def joined(after_ms: float, cpu_pct: float, wait_pct: float, n: int = 260) -> list[AnyRecord]:
    """A run on a CPU that has the machine for itself for 12 s, and then shares it."""
    alone, last = 120, 12 + round((n - 120) * after_ms / 1000)

    def each(i: int) -> dict[str, Any]:
        return {"phases": {"forward": 40.0, "backward": 50.0, "optimizer": 10.0} if i < alone else
                {"forward": 0.4 * after_ms, "backward": 0.5 * after_ms, "optimizer": 0.1 * after_ms}}  # fmt: skip

    def since(quiet: float, then: float) -> Callable[[int], float]:
        return lambda second: quiet if second < 12 else then

    return trace(
        {"data": 0.5},
        n=n,
        each=each,
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        host={"cores": 2, "cpu_pct": since(50, cpu_pct)},
        process={"main_thread_wait_pct": since(0, wait_pct), "main_thread_cpu_pct": since(99, 60),
                 "cpu_pct": since(99, 60), "tree_cpu_pct": since(99, 60)},
        extra=[Process(t=T0 + second * S, host=HOST, pid=99, name="make", cpu_pct=120.0) for second in range(12, last)],
    )  # fmt: skip


def test_others_that_begin_to_use_the_cores_are_found_by_coincidence() -> None:
    """What they cost is what the steps take since, and the gain what they took before."""
    said = judge_trace(joined(165, 98, 38), "test").watch.verdicts[RUN_ID]
    assert said.cause == CAUSE
    assert "times as long since they came" in said.headline
    assert said.speedup_limit == pytest.approx(1.65, rel=0.1)


def test_what_was_before_they_came_is_known_after_it_has_left_the_window() -> None:
    watch = judge_trace(joined(165, 98, 38, n=500), "test").watch
    assert watch.verdicts[RUN_ID].cause == CAUSE
    assert watch.verdicts[RUN_ID].speedup_limit == pytest.approx(1.65, rel=0.1)


def test_neighbours_that_come_and_slow_nobody_are_not_accused() -> None:
    watch = judge_trace(joined(101, 98, 1), "test").watch
    assert watch.verdicts[RUN_ID].cause == "cpu-bound"
