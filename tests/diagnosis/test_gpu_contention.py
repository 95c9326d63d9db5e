"""gpu-contention: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord, GpuProcess
from tests.diagnosis.builder import COMPUTE, MS, PID, busy, expect, trace

CAUSE = "gpu-contention"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "sm": lambda: trace(
        COMPUTE,
        gpu=busy(
            processes=[
                GpuProcess(pid=PID, mem_bytes=20 << 30, sm_pct=50),
                GpuProcess(pid=77, mem_bytes=20 << 30, sm_pct=45, name="python"),
            ]
        ),
    ),
    "sm events": lambda: trace(
        COMPUTE,
        device={"forward": 32, "backward": 44, "optimizer": 8},
        idle={"data": 0.4},
        queue_empty=0.1,
        gpu=busy(
            processes=[
                GpuProcess(pid=PID, mem_bytes=20 << 30, sm_pct=50),
                GpuProcess(pid=77, mem_bytes=20 << 30, sm_pct=45, name="python"),
            ]
        ),
    ),
    "low own": lambda: trace(
        COMPUTE,
        gpu=busy(util_pct=99, processes=[GpuProcess(pid=PID, sm_pct=30), GpuProcess(pid=77, sm_pct=65, name="python")]),
        queue_empty=0.3,
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "gpu-bound: contention no sm": lambda: trace(
        COMPUTE,
        gpu=busy(
            processes=[GpuProcess(pid=PID, mem_bytes=20 << 30), GpuProcess(pid=77, mem_bytes=20 << 30, name="python")]
        ),
    ),
    "gpu-bound: util": lambda: trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70}, sync_count=1, sync_ns=70 * MS, gpu=busy()
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
