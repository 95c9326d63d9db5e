"""input-transfer: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import STARVED, expect, low, trace, workers


def one_slow(i: int) -> dict[str, Any]:
    """One batch in ten is late while later ones lie ready."""
    return {"phases": {"data": 400 if i % 10 == 0 else 1}, "late_ready": 5 if i % 10 == 0 else 0, "ready_batches": 5}


CAUSE = "input-transfer"


def thread_at_work(count: int, worker_pct: float, host_pct: float) -> list[AnyRecord]:
    """So many workers, and one more thread of the training process that never rests."""
    return trace(
        STARVED,
        idle={"data": 50},
        queue_empty=0.2,
        loader={"num_workers": count, "pin_memory": True},
        gpu=low(),
        host={"cpu_pct": host_pct, "cores": 32},
        process={"cpu_pct": 112, "main_thread_cpu_pct": 14, "workers": workers(count, worker_pct)},
    )


PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "ready": lambda: trace(
        STARVED, ready_batches=6, late_ready=0, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 20, "cores": 16}
    ),
    "steps only": lambda: trace(STARVED, ready_batches=6),
    "the pinning thread never rests, the workers do": lambda: thread_at_work(3, worker_pct=9, host_pct=8),
    "handover ready 1": lambda: trace(
        {"data": 30, "forward": 20, "backward": 30, "optimizer": 4},
        ready_batches=10,
        loader={"num_workers": 6, "pin_memory": True},
        host={"cpu_pct": 25, "cores": 16},
        process={"cpu_pct": 100, "main_thread_cpu_pct": 95, "workers": workers(6, 20)},
        gpu=low(55),
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-slow-sample: late": lambda: trace(
        {"h2d": 2, "forward": 12, "backward": 20, "optimizer": 4, "data": 1},
        each=one_slow,
        loader={"num_workers": 8, "in_order": True},
        gpu=low(45),
        host={"cpu_pct": 20, "cores": 16},
    ),
    "input-workers: a thread is busy beside workers that are too": lambda: thread_at_work(
        2, worker_pct=97, host_pct=12
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
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
