"""small-model: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, GPU_BYTES, expect, low, trace, verdict

CAUSE = "small-model"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "25 ms at 4 % of use, parameters not told": lambda: trace(
        {"data": 0.3, "forward": 5, "backward": 6, "optimizer": 2},
        n=800,
        gpu={
            "util_pct": 4,
            "mem_used_bytes": 1 << 29,
            "mem_total_bytes": GPU_BYTES,
            "power_w": 75,
            "power_limit_w": 400,
        },
    ),
    "tiny": lambda: trace(
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
    "no queue": lambda: trace(
        {"data": 0.2, "forward": 1, "backward": 1.5, "optimizer": 0.8},
        n=300,
        gpu={
            "util_pct": 18,
            "mem_used_bytes": 1 << 30,
            "mem_total_bytes": GPU_BYTES,
            "power_w": 110,
            "power_limit_w": 700,
        },
        model={"param_count": 300_000},
    ),
    "no params": lambda: trace(
        {"data": 0.2, "forward": 1, "backward": 1.5, "optimizer": 0.8},
        n=300,
        gpu={
            "util_pct": 12,
            "mem_used_bytes": 1 << 30,
            "mem_total_bytes": GPU_BYTES,
            "power_w": 90,
            "power_limit_w": 700,
        },
    ),
    "resnet tiny": lambda: trace(
        {"data": 0.5, "forward": 2, "backward": 3, "optimizer": 1},
        n=800,
        queue_empty=0.9,
        gpu={
            "util_pct": 10,
            "mem_used_bytes": 600 << 20,
            "mem_total_bytes": 24 << 30,
            "power_w": 60,
            "power_limit_w": 350,
        },
        model={"param_count": 100_000, "param_tensors": 6},
        device={"forward": 0.1, "backward": 0.2, "optimizer": 0.1},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "launch-bound: gpu_ns span": lambda: trace(
        COMPUTE,
        queue_empty=0.95,
        device={"forward": 30, "backward": 45, "optimizer": 8},
        gpu=low(30),
        model={"param_count": 60_000_000},
    ),
    "gpu-bound: events": lambda: trace(
        COMPUTE, device={"forward": 32, "backward": 44, "optimizer": 8}, idle={"data": 0.4}, queue_empty=0.05
    ),
}
"""Traces that look like it, named after what they are."""


def tiny(used: float, **fields: Any) -> list[AnyRecord]:
    gpu = {"util_pct": 18, "mem_used_bytes": round(used * GPU_BYTES), "mem_total_bytes": GPU_BYTES}
    gpu |= {"power_w": 110, "power_limit_w": 700}
    phases = {"data": 0.2, "forward": 1.0, "backward": 1.5, "optimizer": 0.8}
    return trace(phases, n=3000, queue_empty=0.95, gpu=gpu, model={"param_count": 300_000}, **fields)


def test_low_utilization_with_memory_full_and_with_it_empty_differ() -> None:
    assert verdict(tiny(0.02)).cause == CAUSE
    assert verdict(tiny(0.98)).cause == "launch-bound"


def test_memory_that_the_framework_reserves_or_another_fills_is_not_the_models() -> None:
    assert verdict(tiny(0.98, run={"framework": "jax"})).cause == CAUSE
    assert verdict(tiny(0.98, mem_reserved_bytes=GPU_BYTES // 50)).cause == CAUSE


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
