"""sync: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, MS, READS, SITES, busy, expect, low, trace

CAUSE = "sync"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "util": lambda: trace(READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, gpu=low(45)),
    "idle fwd": lambda: trace(
        READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, idle={"forward": 15, "backward": 18}, queue_empty=0.9
    ),
    "idle sync": lambda: trace(READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, idle={"sync": 28}),
    "idle other": lambda: trace(
        READS, ms=100, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, idle={"other": 30}, queue_empty=0.9
    ),
    "idle other 2": lambda: trace(READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, idle={"other": 30}),
    "no phase": lambda: trace(
        {"data": 1, "forward": 40, "backward": 40, "optimizer": 5},
        sync_count=20,
        sync_ns=35 * MS,
        sync_sites=SITES,
        gpu=low(45),
    ),
    "amid forward, at no boundary": lambda: trace(
        {"data": 0.1, "forward": 530, "backward": 4, "optimizer": 1, "sync": 385},
        device={"forward": 656, "backward": 250, "optimizer": 8},
        idle={"data": 0},
        ms=920,
        n=40,
        queue_empty=0.0,
        sync_count=20,
        sync_ns=385 * MS,
        gpu=low(44),
    ),
    "only counted": lambda: trace({"train_step": 154}, sync_count=348, gpu=low(55)),
    "queue": lambda: trace(READS, sync_count=142, sync_ns=35 * MS, sync_sites=SITES, queue_empty=0.9, gpu=low(9)),
    "gpu_ns": lambda: trace(
        READS,
        sync_count=20,
        sync_ns=35 * MS,
        sync_sites=SITES,
        device={"forward": 18, "backward": 20, "optimizer": 3},
        gpu=low(50),
    ),
    "idle fwd/bwd, cpu thread": lambda: trace(
        READS,
        sync_count=20,
        sync_ns=35 * MS,
        sync_sites=SITES,
        idle={"forward": 15, "backward": 18, "data": 0.5},
        gpu=low(60),
        process={"cpu_pct": 100, "main_thread_cpu_pct": 99},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "gpu-bound: item on busy": lambda: trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70},
        sync_count=1,
        sync_ns=70 * MS,
        gpu=busy(),
        idle={"data": 0.2, "other": 0.3},
        queue_empty=0.05,
    ),
    "gpu-bound: item busy util": lambda: trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70}, sync_count=1, sync_ns=70 * MS, gpu=busy()
    ),
    "gpu-bound: many reads but busy": lambda: trace(
        READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, idle={"forward": 1, "backward": 1}, gpu=busy()
    ),
    "launch-bound: queue+util": lambda: trace(COMPUTE, queue_empty=0.97, gpu=low(22)),
    "host-work: idle other": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4},
        ms=70,
        idle={"other": 28, "data": 0.2},
        queue_empty=0.5,
    ),
    "unknown: sync steps only": lambda: trace(READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
