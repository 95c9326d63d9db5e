"""warmup: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import Alive, AnyRecord, Step
from tests.diagnosis.builder import COMPUTE, RUN_ID, busy, event, expect, low, reported, trace, verdict


def new_shapes(i: int) -> dict[str, Any]:
    """Every second step meets a new shape and compiles."""
    return {"shapes": min(i // 2 + 1, 12), "phases": {"forward": 1500 if i % 2 == 0 and i < 24 else 20}}


CAUSE = "warmup"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "each step meets a new shape": lambda: trace(
        COMPUTE, n=40, each=lambda i: {"shapes": i + 1, "phases": {"forward": 1500}}, gpu=low(8)
    ),
    "the compiler says so": lambda: trace(
        {"data": 1, "forward": 20, "backward": 30, "optimizer": 4},
        n=60,
        each=lambda i: {"other_ms": 300 if i % 5 == 0 else 0},
        jitter=0,
        gpu=low(55),
        extra=[event("recompile", 355 * (i // 5) + 55 * (i - i // 5) + 10) for i in range(0, 60, 5)],
    ),
    "shapes": lambda: trace({"data": 1, "forward": 20, "backward": 30, "optimizer": 4}, n=24, each=new_shapes),
    "recompile": lambda: trace(
        {"data": 1, "forward": 20, "backward": 30, "optimizer": 4},
        each=lambda i: {"shapes": 1 + i // 6, "phases": {"forward": 900 if i % 6 == 0 else 20}},
    ),
    "first": lambda: trace(
        {"data": 1, "forward": 20, "backward": 30, "optimizer": 4},
        n=12,
        each=lambda i: {"kind": "warmup" if i < 6 else None, "phases": {"forward": 3000 if i < 6 else 20}},
    ),
    "20 of 40": lambda: trace(
        COMPUTE, n=40, each=lambda i: {"shapes": 1, "phases": {"forward": 4000 if i < 3 else 30}}
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-workers: a minute of compiling, and six seconds of waits for the only loader": lambda: trace(
        {"data": 80, "forward": 8, "backward": 10, "optimizer": 2},
        n=60,
        each=lambda i: {"kind": "warmup" if i < 2 else None, "phases": {"forward": 30_000 if i < 2 else 8}},
        loader={"num_workers": 0},
        gpu=low(12),
    ),
    "launch-bound: lengths vary, and nothing is compiled for them": lambda: trace(
        COMPUTE, n=200, each=lambda i: {"shapes": i + 1}, gpu=low(20)
    ),
    "gpu-bound: accum": lambda: trace(
        {"data": 1, "forward": 30, "backward": 45},
        each=lambda i: {"optimizer_step": i % 8 == 7, "phases": {"optimizer": 10 if i % 8 == 7 else 0}},
        gpu=busy(),
        queue_empty=0.05,
    ),
    "input-restart: first only, n=200": lambda: trace(
        {"data": 2, "forward": 20, "backward": 30, "optimizer": 4},
        n=200,
        each=lambda i: {
            "epoch": i // 40,
            "first_of_epoch": i % 40 == 0,
            "phases": {"data": 1200 if i % 40 == 0 else 2},
        },
        loader={"num_workers": 8, "persistent_workers": False, "batches": 40},
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def test_how_long_it_has_been_in_a_phase_is_as_it_was_said_while_steps_still_come() -> None:
    steps = trace({"data": 2, "backward": 8}, n=3, ms=10)
    last = max(one.t + one.dur_ns for one in steps if isinstance(one, Step))
    said = Alive(t=last - 5_000_000, run_id=RUN_ID, steps=2, open_phase="backward", open_since_ns=last - 8_000_000)
    assert "now in backward for 3 ms" in verdict([*steps, said]).headline


def test_a_report_names_compiling_over_and_over_as_what_held_the_run_back() -> None:
    again = trace(
        COMPUTE, n=130, each=lambda i: {"shapes": 1 + i // 5, "other_ms": 900 if i % 5 == 0 else 0}, gpu=low(55)
    )
    said = reported(again)
    assert said.cause == "warmup"
    assert said.speedup_limit is not None
