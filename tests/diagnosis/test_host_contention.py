"""host-contention: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, STARVED, expect, low, others, trace

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
