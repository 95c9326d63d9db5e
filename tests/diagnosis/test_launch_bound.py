"""launch-bound: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, GPU_BYTES, MS, READS, SITES, busy, expect, low, trace

CAUSE = "launch-bound"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "util low": lambda: trace(
        COMPUTE,
        gpu=low(22, mem_util_pct=3),
        host={"cpu_pct": 8, "cores": 16},
        process={"cpu_pct": 101, "main_thread_cpu_pct": 100},
    ),
    "queue only": lambda: trace(COMPUTE, queue_empty=0.97),
    "queue+util": lambda: trace(COMPUTE, queue_empty=0.97, gpu=low(22)),
    "gpu_ns busy": lambda: trace(COMPUTE, queue_empty=0.95, device={"forward": 6, "backward": 9, "optimizer": 2}),
    "gpu_ns span": lambda: trace(
        COMPUTE,
        queue_empty=0.95,
        device={"forward": 30, "backward": 45, "optimizer": 8},
        gpu=low(30),
        model={"param_count": 60_000_000},
    ),
    "idle by phase": lambda: trace(
        COMPUTE, queue_empty=0.95, idle={"forward": 22, "backward": 30, "optimizer": 5}, gpu=low(30)
    ),
    "nohooks": lambda: trace(
        {"data": 1},
        ms=84,
        gpu=low(22),
        process={"cpu_pct": 101, "main_thread_cpu_pct": 100},
        host={"cpu_pct": 8, "cores": 16},
        queue_empty=0.97,
    ),
    "gpu_ns no queue": lambda: trace(COMPUTE, device={"forward": 6, "backward": 9, "optimizer": 2}, gpu=low(20)),
    "power": lambda: trace(
        COMPUTE,
        gpu={
            "util_pct": 60,
            "power_w": 110,
            "power_limit_w": 400,
            "mem_used_bytes": 20 << 30,
            "mem_total_bytes": GPU_BYTES,
        },
        queue_empty=0.96,
        model={"param_count": 300_000_000},
    ),
    "queue 0.9 many": lambda: trace(
        {"data": 0.5, "forward": 8, "backward": 12, "optimizer": 3},
        queue_empty=0.9,
        gpu=low(28),
        n=300,
        loader={"num_workers": 4, "batch_size": 2},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "gpu-bound: util": lambda: trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70}, sync_count=1, sync_ns=70 * MS, gpu=busy()
    ),
    "small-model: tiny": lambda: trace(
        {"data": 0.2, "forward": 1, "backward": 1.5, "optimizer": 0.8},
        n=3000,
        queue_empty=0.95,
        gpu={
            "util_pct": 18,
            "mem_used_bytes": 1 << 30,
            "mem_total_bytes": GPU_BYTES,
            "power_w": 110,
            "power_limit_w": 700,
        },
        model={"param_count": 300_000},
    ),
    "optimizer: util": lambda: trace(
        {"data": 1, "forward": 25, "backward": 30, "optimizer": 40},
        gpu=low(45),
        model={"param_tensors": 800, "optimizer": "AdamW", "optimizer_fused": False, "param_count": 50_000_000},
    ),
    "sync: util": lambda: trace(READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, gpu=low(45)),
    "cpu-fallback: on_cpu": lambda: trace(
        COMPUTE, gpu=low(20), model={"devices": {"cuda:0": 1000}, "on_cpu": ["embed.weight"]}
    ),
    "memory-pressure: each": lambda: trace(
        COMPUTE, each=lambda i: {"alloc_retries": i}, gpu=low(55, mem_used_bytes=int(0.985 * GPU_BYTES))
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
