"""checkpoint: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, busy, event, expect, low, trace

CAUSE = "checkpoint"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "phase": lambda: trace(
        COMPUTE, each=lambda i: {"phases": {"checkpoint": 3000 if i % 40 == 39 else 0}}, gpu=low(60)
    ),
    "event": lambda: trace(
        COMPUTE,
        each=lambda i: {"other_ms": 3000 if i % 40 == 39 else 0},
        extra=[event("checkpoint", 84 * 40 * (k + 1) + 3000 * k, 3000) for k in range(3)],
        gpu=low(60),
    ),
    "steps only": lambda: trace(COMPUTE, each=lambda i: {"phases": {"checkpoint": 3000 if i % 40 == 39 else 0}}),
    "10pct": lambda: trace(COMPUTE, each=lambda i: {"phases": {"checkpoint": 1500 if i % 50 == 49 else 0}}, n=250),
    "busy": lambda: trace(
        COMPUTE,
        each=lambda i: {"phases": {"checkpoint": 2500 if i % 40 == 39 else 0}},
        n=200,
        queue_empty=0.05,
        gpu=busy(util_pct=60),
    ),
    "cpu": lambda: trace(
        COMPUTE,
        each=lambda i: {"phases": {"checkpoint": 2500 if i % 40 == 39 else 0}},
        n=200,
        run={"device": "cpu"},
        no_gpu=True,
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "evaluation: phase": lambda: trace(COMPUTE, each=lambda i: {"phases": {"eval": 3000 if i % 20 == 19 else 0}}),
    "host-work: every 10": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4},
        each=lambda i: {"phases": {"metrics": 400 if i % 10 == 9 else 0}},
        gpu=low(50),
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
