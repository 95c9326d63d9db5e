"""gpu-bound: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord, GpuProcess
from tests.diagnosis.builder import COMPUTE, GPU_BYTES, MS, PID, READS, SITES, busy, expect, trace

CAUSE = "gpu-bound"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "item on busy": lambda: trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70},
        sync_count=1,
        sync_ns=70 * MS,
        gpu=busy(),
        idle={"data": 0.2, "other": 0.3},
        queue_empty=0.05,
    ),
    "item busy util": lambda: trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70}, sync_count=1, sync_ns=70 * MS, gpu=busy()
    ),
    "util": lambda: trace(COMPUTE, gpu=busy()),
    "events": lambda: trace(
        COMPUTE, device={"forward": 32, "backward": 44, "optimizer": 8}, idle={"data": 0.4}, queue_empty=0.05
    ),
    "queue": lambda: trace(COMPUTE, queue_empty=0.05),
    "long data, busy": lambda: trace(
        {"data": 50, "forward": 10, "backward": 20, "optimizer": 4}, idle={"data": 1}, queue_empty=0.05, gpu=busy()
    ),
    "long data, util": lambda: trace({"data": 50, "forward": 10, "backward": 20, "optimizer": 4}, gpu=busy()),
    "accum": lambda: trace(
        {"data": 1, "forward": 30, "backward": 45},
        each=lambda i: {"optimizer_step": i % 8 == 7, "phases": {"optimizer": 10 if i % 8 == 7 else 0}},
        gpu=busy(),
        queue_empty=0.05,
    ),
    "powercap": lambda: trace(
        COMPUTE, gpu=busy(throttle=["power_cap"], sm_clock_mhz=1700, sm_clock_max_mhz=1980, power_w=699)
    ),
    "contention no sm": lambda: trace(
        COMPUTE,
        gpu=busy(
            processes=[GpuProcess(pid=PID, mem_bytes=20 << 30), GpuProcess(pid=77, mem_bytes=20 << 30, name="python")]
        ),
    ),
    "many reads but busy": lambda: trace(
        READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, idle={"forward": 1, "backward": 1}, gpu=busy()
    ),
    "many reads util 98": lambda: trace(READS, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, gpu=busy(util_pct=98)),
    "thermal flag clock fine": lambda: trace(
        COMPUTE, queue_empty=0.02, gpu=busy(sm_clock_mhz=1950, sm_clock_max_mhz=1980, throttle=["thermal_sw"])
    ),
    "mem full": lambda: trace(COMPUTE, gpu=busy(mem_used_bytes=int(0.97 * GPU_BYTES)), queue_empty=0.05),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "unknown: a full utilization, and nothing else at all": lambda: trace({}, ms=90, gpu={"util_pct": 99}),
    "throttled: thermal": lambda: trace(
        COMPUTE, gpu=busy(sm_clock_mhz=1100, sm_clock_max_mhz=1980, throttle=["thermal_sw"], temp_c=90)
    ),
    "gpu-contention: sm": lambda: trace(
        COMPUTE,
        gpu=busy(
            processes=[
                GpuProcess(pid=PID, mem_bytes=20 << 30, sm_pct=50),
                GpuProcess(pid=77, mem_bytes=20 << 30, sm_pct=45, name="python"),
            ]
        ),
    ),
    "comm-bound: single": lambda: trace(
        {"data": 1, "forward": 30, "backward": 45, "optimizer": 5, "comm": 45},
        run={"rank": 0, "world_size": 8},
        gpu=busy(util_pct=100, power_w=250),
    ),
    "checkpoint: busy": lambda: trace(
        COMPUTE,
        each=lambda i: {"phases": {"checkpoint": 2500 if i % 40 == 39 else 0}},
        n=200,
        queue_empty=0.05,
        gpu=busy(util_pct=60),
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
