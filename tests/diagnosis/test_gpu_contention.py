"""gpu-contention: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from gputop.records import AnyRecord, Gpu, GpuProcess
from gputop.report.judged import judge_trace
from tests.diagnosis.builder import COMPUTE, MS, PID, RUN_ID, busy, expect, reported, trace

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


def comes(at_s: int, after: float = 3.0, seconds: int = 60, **fields: Any) -> list[AnyRecord]:
    """A neighbour of which only the memory is known comes at a moment, and from the next second on steps are longer."""
    steps, first = [], round(at_s / 0.1) + 10
    for i in range(first + round((seconds - at_s) / (0.1 * after))):
        steps.append(100.0 if i < first else 100.0 * after)
    own = [GpuProcess(pid=PID, mem_bytes=20 << 30)]
    both = [*own, GpuProcess(pid=77, mem_bytes=20 << 30, name="python")]
    return trace(
        {}, n=len(steps), each=lambda i: {"phases": {"forward": steps[i]}},
        gpu=busy(processes=lambda i: own if i < at_s else both), **fields,
    )  # fmt: skip


@pytest.mark.parametrize("at_s", [20, 45])
def test_a_neighbour_that_comes_and_slows_the_steps(at_s: int) -> None:
    said = judge_trace(comes(at_s), "test").watch.verdicts[RUN_ID]
    assert said.cause == CAUSE
    assert said.headline.startswith("since process 77 (python) came to the same GPU, a step takes 3.0 times")
    assert said.speedup_limit == pytest.approx(3.0, rel=0.1)
    assert said.share_pct == pytest.approx(67, abs=4)


def test_a_neighbour_that_takes_over_the_number_of_one_that_was_there_has_come_too() -> None:
    records = comes(20)
    for at, record in enumerate(records):
        if isinstance(record, Gpu):
            quiet = GpuProcess(pid=77, mem_bytes=1 << 30, name="python", start_ticks=5)
            own, *came = record.processes or ()
            later = [msgspec.structs.replace(one, start_ticks=900) for one in came]
            records[at] = msgspec.structs.replace(record, processes=[own, *(later or [quiet])])
    said = judge_trace(records, "test").watch.verdicts[RUN_ID]
    assert said.headline.startswith("since process 77 (python) came to the same GPU, a step takes 3.0 times")


def test_a_neighbour_that_comes_and_slows_nothing() -> None:
    assert reported(comes(20, after=1.05)).cause == "gpu-bound"


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
