"""input-oversubscribed: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord, Worker
from tests.diagnosis.builder import STARVED, expect, low, others, trace, workers

CAUSE = "input-oversubscribed"


def on_two_cores(
    phases: dict[str, float], host: dict[str, float], process: dict[str, Any], workers: list[Worker]
) -> list[AnyRecord]:
    """A training on the CPU of a machine of two cores, with two workers."""
    return trace(
        phases,
        loader={"num_workers": 2, "persistent_workers": True},
        run={"device": "cpu", "cores_allowed": 2, "cores": 2},
        no_gpu=True,
        host={"cores": 2, **host},
        process={**process, "workers": workers},
    )


PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "workers unseen, threads and switching": lambda: trace(
        STARVED, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 100, "cores": 8, "system_pct": 22, "load1": 60}
    ),
    "four workers on the one core that a mask leaves": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        run={"cores_allowed": 1, "cores": 4},
        gpu=low(),
        host={"cpu_pct": 25, "cores": 4},
        process={"cpu_pct": 9, "workers": workers(4, 22, wait_pct=77)},
    ),
    "a pool in each of as many workers as cores": lambda: trace(
        STARVED,
        loader={"num_workers": 16},
        gpu=low(),
        host={"cpu_pct": 100, "cores": 16, "load1": 62},
        process={"cpu_pct": 8, "workers": workers(16, 99, threads=5)},
    ),
    "affinity, workers unseen": lambda: trace(
        STARVED,
        loader={"num_workers": 16},
        run={"cores_allowed": 1, "cores": 64},
        gpu=low(),
        host={"cpu_pct": 2, "cores": 64},
    ),
    "a crowd, by the run's own cores": lambda: trace(
        STARVED,
        loader={"num_workers": 32},
        run={"cores": 8},
        gpu=low(),
        process={"cpu_pct": 60, "workers": workers(32, 23)},
    ),
    "threads": lambda: trace(
        STARVED,
        loader={"num_workers": 16},
        gpu=low(),
        host={"cpu_pct": 99, "cores": 8, "system_pct": 20, "load1": 64},
        process={"cpu_pct": 40, "workers": workers(16, 47, threads=9)},
    ),
    "affinity1": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        run={"cores_allowed": 1, "cores": 96},
        gpu=low(),
        host={"cpu_pct": 2, "cores": 96},
        process={"cpu_pct": 30, "workers": workers(8, 9)},
    ),
    "quota": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        gpu=low(),
        host={"cpu_pct": 12, "cores": 64, "cpu_quota_cores": 4, "throttled_ns": lambda i: i * 400_000_000},
        process={"cpu_pct": 30, "workers": workers(8, 45)},
    ),
    "140%": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        gpu=low(),
        host={"cpu_pct": 98, "cores": 8, "load1": 50},
        process={"cpu_pct": 40, "workers": workers(8, 140, threads=30)},
    ),
    "32 workers 4 cores": lambda: trace(
        STARVED,
        loader={"num_workers": 32},
        run={"cores_allowed": 4, "cores": 4},
        gpu=low(),
        host={"cpu_pct": 100, "cores": 4, "load1": 34, "system_pct": 18},
        process={"cpu_pct": 20, "workers": workers(32, 11)},
    ),
    "thread pools that hand two cores to each other, as many workers as cores": lambda: on_two_cores(
        {"data": 57.4, "forward": 4.8, "backward": 9.9, "optimizer": 23.2},
        host={"cpu_pct": 99.3, "system_pct": 41},
        process={"cpu_pct": 17, "main_thread_cpu_pct": 16, "main_thread_wait_pct": 28, "tree_cpu_pct": 200},
        workers=workers(2, 91, system_pct=44.5, threads=10, wait_pct=56.0),
    ),
    "no process": lambda: trace(
        STARVED,
        loader={"num_workers": 32},
        run={"cores_allowed": 4, "cores": 4},
        gpu=low(),
        host={"cpu_pct": 100, "cores": 4, "load1": 34, "system_pct": 18},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-cpu: as many workers as cores, with threads that rest": lambda: trace(
        STARVED,
        loader={"num_workers": 16},
        gpu=low(),
        host={"cpu_pct": 100, "cores": 16, "load1": 17},
        process={"cpu_pct": 8, "workers": workers(16, 99, threads=5)},
    ),
    "input-workers: cores that others have, workers seen but not timed yet": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        gpu=low(),
        host={"cpu_pct": 99, "cores": 2},
        process={"workers": workers(4, None)},
    ),
    "input-cpu: worker 100 16of16": lambda: trace(
        STARVED,
        loader={"num_workers": 16, "persistent_workers": True, "pin_memory": True},
        run={"cores_allowed": 16, "cores": 16},
        gpu=low(30),
        host={"cpu_pct": 99, "cores": 16, "iowait_pct": 0.2, "user_pct": 93, "system_pct": 5},
        process={"cpu_pct": 45, "main_thread_cpu_pct": 30, "workers": workers(16, 97, state="R")},
    ),
    "input-cpu: plain workers on two cores, the kernel's part that of small allocations": lambda: on_two_cores(
        {"data": 40, "forward": 4.8, "backward": 9.9, "optimizer": 13.2},
        host={"cpu_pct": 99.3, "system_pct": 20},
        process={"cpu_pct": 37, "main_thread_cpu_pct": 36, "main_thread_wait_pct": 15, "tree_cpu_pct": 198},
        workers=workers(2, 81, system_pct=25.0, threads=3, wait_pct=17.0),
    ),
    "input-cpu: plain workers that have a core when they want one, others' threads queue": lambda: on_two_cores(
        {"data": 7.3, "forward": 5.8, "backward": 4.8, "optimizer": 0.1},
        host={"cpu_pct": 99.8, "system_pct": 12, "load1": 5.1},
        process={"cpu_pct": 63, "main_thread_cpu_pct": 60, "main_thread_wait_pct": 4.8, "tree_cpu_pct": 161},
        workers=workers(2, 49, system_pct=2.8, threads=3, wait_pct=2.7),
    ),
    "input-cpu: pools of threads that lie idle, as numeric libraries open them": lambda: on_two_cores(
        {"data": 40, "forward": 4.8, "backward": 9.9, "optimizer": 13.2},
        host={"cpu_pct": 99.3, "system_pct": 6},
        process={"cpu_pct": 37, "main_thread_cpu_pct": 36, "main_thread_wait_pct": 15, "tree_cpu_pct": 198},
        workers=workers(2, 81, system_pct=6.0, threads=10, wait_pct=17.0),
    ),
    "input-workers: gpu idle": lambda: trace(
        STARVED,
        idle={"data": 55},
        queue_empty=0.9,
        loader={"num_workers": 2},
        gpu=low(),
        host={"cpu_pct": 20, "cores": 16},
        process={"cpu_pct": 50, "workers": workers(2, 96)},
    ),
    "input-workers: 4 that sleep": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        run={"cores_allowed": 2, "cores": 2},
        gpu=low(),
        host={"cpu_pct": 99, "cores": 2, "load1": 6},
        process={
            "cpu_pct": 3,
            "main_thread_cpu_pct": 3,
            "main_thread_wait_pct": 2,
            "workers": workers(4, 2, state="S", wait_pct=4.0),
        },
        extra=others("ffmpeg", 185),
    ),
    "host-contention: workers ready": lambda: trace(
        STARVED,
        loader={"num_workers": 2},
        run={"cores_allowed": 8, "cores": 8},
        gpu=low(),
        host={"cpu_pct": 99, "cores": 8, "load1": 30},
        process={"cpu_pct": 5, "main_thread_cpu_pct": 5, "workers": workers(2, 25, wait_pct=72.0)},
        extra=others("ffmpeg", 740),
    ),
    "host-contention: wait": lambda: trace(
        {"data": 1, "forward": 30, "backward": 50, "optimizer": 5},
        run={"device": "cpu"},
        no_gpu=True,
        host={"cpu_pct": 99, "cores": 8, "load1": 20},
        process={"cpu_pct": 300, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 42},
        extra=others("ffmpeg", 480),
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
