"""memory-pressure: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, GPU_BYTES, busy, expect, low, trace

CAUSE = "memory-pressure"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "retries amid backward, and one read where it costs nothing": lambda: trace(
        {"data": 0.1, "forward": 5, "backward": 90, "optimizer": 1, "sync": 110},
        device={"forward": 45, "backward": 150, "optimizer": 2},
        idle={"data": 0},
        each=lambda i: {"alloc_retries": i},
        queue_empty=0.0,
        sync_count=1,
        gpu=low(62, mem_used_bytes=78 << 30),
    ),
    "spilled to the host": lambda: trace(
        COMPUTE, gpu=low(15, mem_used_bytes=int(0.998 * GPU_BYTES)), process={"cpu_pct": 20, "main_thread_cpu_pct": 20}
    ),
    "each": lambda: trace(
        COMPUTE, each=lambda i: {"alloc_retries": i}, gpu=low(55, mem_used_bytes=int(0.985 * GPU_BYTES))
    ),
    "spikes": lambda: trace(
        COMPUTE,
        each=lambda i: {"alloc_retries": i // 4, "other_ms": 200 if i % 4 == 0 else 0},
        gpu=low(55, mem_used_bytes=int(0.985 * GPU_BYTES)),
    ),
    "swap": lambda: trace(
        COMPUTE,
        host={
            "cpu_pct": 20,
            "cores": 8,
            "swap_in_bytes_s": 80e6,
            "swap_used_bytes": 8 << 30,
            "mem_used_bytes": 63 << 30,
            "mem_total_bytes": 64 << 30,
            "psi_mem_pct": 40,
        },
        gpu=low(40),
    ),
    "swap nopsi": lambda: trace(
        COMPUTE,
        host={
            "cpu_pct": 20,
            "cores": 8,
            "swap_in_bytes_s": 80e6,
            "mem_used_bytes": 63 << 30,
            "mem_total_bytes": 64 << 30,
        },
        gpu=low(40),
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "launch-bound: full to the brim, and the host works": lambda: trace(
        COMPUTE, gpu=low(15, mem_used_bytes=int(0.998 * GPU_BYTES)), process={"cpu_pct": 99, "main_thread_cpu_pct": 99}
    ),
    "gpu-bound: full to the brim, and the device works": lambda: trace(
        COMPUTE, gpu=busy(mem_used_bytes=int(0.998 * GPU_BYTES)), process={"cpu_pct": 20, "main_thread_cpu_pct": 20}
    ),
    "gpu-bound: mem full": lambda: trace(COMPUTE, gpu=busy(mem_used_bytes=int(0.97 * GPU_BYTES)), queue_empty=0.05),
    "launch-bound: power": lambda: trace(
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
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
