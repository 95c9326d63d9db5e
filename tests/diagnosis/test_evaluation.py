"""evaluation: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.diagnosis.evidence import gather
from gputop.records import AnyRecord, Run, Step
from tests.diagnosis.builder import COMPUTE, HOST, MS, PID, RUN_ID, STARVED, T0, busy, expect, low, trace, window

CAUSE = "evaluation"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "phase": lambda: trace(COMPUTE, each=lambda i: {"phases": {"eval": 3000 if i % 20 == 19 else 0}}),
    "phase cpu": lambda: trace(
        COMPUTE, each=lambda i: {"phases": {"eval": 3000 if i % 20 == 19 else 0}}, run={"device": "cpu"}
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "checkpoint: phase": lambda: trace(
        COMPUTE, each=lambda i: {"phases": {"checkpoint": 3000 if i % 40 == 39 else 0}}, gpu=low(60)
    ),
    "input-workers: steps only": lambda: trace(STARVED),
    "cpu-bound: steps only": lambda: trace(COMPUTE, run={"device": "cpu"}),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def with_validation(*, marked: bool, kind: str | None) -> list[AnyRecord]:
    """A loop that validates 20 batches every 20 steps; the validation's steps are records of their own."""
    phases = {"data": 1.0, "forward": 30.0, "backward": 45.0, "optimizer": 8.0}
    records: list[AnyRecord] = [Run(t=T0, run_id=RUN_ID, pid=PID, host=HOST, device="cuda:0")]
    t = T0
    for n in range(100):
        validates = n % 20 == 19
        columns = {name: round(ms * MS) for name, ms in phases.items()}
        if validates and marked:
            columns["eval"] = 2000 * MS
        length = 84 * MS + (2000 * MS if validates else 0)
        records.append(
            Step(t=t, run_id=RUN_ID, n=n, dur_ns=length, phases_ns=columns, had_backward=True, loader_id=0, kind=kind)
        )
        for batch in range(20 if validates else 0):
            records.append(
                Step(
                    t=t + (84 + 100 * batch) * MS,
                    run_id=RUN_ID,
                    n=batch,
                    dur_ns=100 * MS,
                    phases_ns={"data": 60 * MS, "forward": 40 * MS},
                    had_backward=False,
                    loader_id=1,
                    kind="eval" if kind else None,
                )
            )
        t += length
    return records


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("kind", ["train", None])
def test_validation_with_steps_of_its_own(marked: bool, kind: str | None) -> None:
    expect(CAUSE, with_validation(marked=marked, kind=kind))


def test_data_wait_of_the_validation_is_no_wait_of_the_training() -> None:
    facts = gather(window(with_validation(marked=True, kind="train")))
    assert facts.loop is not None
    assert facts.loop.pct("data") < 2
    assert 45 < facts.loop.pct("eval") < 70


def test_an_occasional_validation_is_no_finding() -> None:
    records = trace({"data": 1, "forward": 30, "backward": 45}, n=200, each=_seldom, run={"device": "cpu"})
    expect("cpu-bound", records)


@pytest.mark.parametrize(("eval_ms", "cause"), [(750, CAUSE), (500, "gpu-bound")])
def test_a_sixth_of_the_time_is_worth_a_word_and_an_eighth_is_not(eval_ms: float, cause: str) -> None:
    expect(
        cause,
        trace(
            {"data": 1, "forward": 30, "backward": 45},
            n=200,
            each=lambda i: {"phases": {"eval": eval_ms if i % 50 == 49 else 0}},
            device={"forward": 30, "backward": 45},
            idle={"data": 0.5},
            queue_empty=0.1,
            gpu=busy(),
        ),
    )


def _seldom(i: int) -> dict[str, Any]:
    return {"phases": {"eval": 500 if i % 50 == 49 else 0}}
