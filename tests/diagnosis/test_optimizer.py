"""optimizer: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, expect, low, trace

CAUSE = "optimizer"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "the only phase marked": lambda: trace({"optimizer": 33}, ms=100, process={"main_thread_cpu_pct": 100}),
    "device not said": lambda: trace(COMPUTE | {"optimizer": 60}, run={"device": None}),
    "steps only": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 40},
        model={"param_tensors": 800, "optimizer": "AdamW", "optimizer_fused": False},
    ),
    "util": lambda: trace(
        {"data": 1, "forward": 25, "backward": 30, "optimizer": 40},
        gpu=low(45),
        model={"param_tensors": 800, "optimizer": "AdamW", "optimizer_fused": False, "param_count": 50_000_000},
    ),
    "gpu_ns": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 40},
        device={"forward": 20, "backward": 25, "optimizer": 4},
        queue_empty=0.8,
        model={"param_tensors": 800, "optimizer": "AdamW", "optimizer_fused": False},
    ),
    "idle": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 40},
        idle={"optimizer": 30, "data": 0.2},
        queue_empty=0.6,
        model={"param_tensors": 800, "optimizer": "AdamW", "optimizer_fused": False},
    ),
    "big share nomodel": lambda: trace({"data": 1, "forward": 10, "backward": 14, "optimizer": 60}, gpu=low(35)),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "launch-bound: queue only": lambda: trace(COMPUTE, queue_empty=0.97),
    "gpu-bound: events": lambda: trace(
        COMPUTE, device={"forward": 32, "backward": 44, "optimizer": 8}, idle={"data": 0.4}, queue_empty=0.05
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
