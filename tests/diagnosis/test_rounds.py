"""Rounds of workers that keep pace, against slow samples that come now and then."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from gputop.diagnosis.loop import read_loop
from gputop.diagnosis.rounds import in_rounds
from gputop.records import Alive
from gputop.simulation.trace import records
from gputop.watching import Watch
from tests.diagnosis.builder import expect, low, trace, verdict, window, workers

WORK = {"forward": 0.2, "backward": 0.2, "optimizer": 0.1}
RANDOM = Random(3)
SLOW = {n for n in range(400) if RANDOM.random() < 0.08}


def paced(n: int) -> float:
    """Four workers finish nearly together: one long wait, and a short one for the second half of them."""
    return (280.0, 0.3, 45.0, 0.4)[n % 4]


def shifting(n: int) -> float:
    """The same over passes of 30 batches, which four workers do not divide."""
    return (280.0, 0.3, 45.0, 0.4)[n % 30 % 4]


def now_and_then(n: int) -> float:
    return 280.0 if n in SLOW else 0.3


def steady(n: int) -> float:
    return 80.0


@pytest.mark.parametrize(
    ("wait", "expected"), [(paced, True), (shifting, True), (now_and_then, False), (steady, False)]
)
def test_the_beat_of_the_workers(wait: Callable[[int], float], expected: bool) -> None:
    def each(n: int) -> dict[str, Any]:
        return {"phases": {"data": wait(n)}, "first_of_epoch": n % 30 == 0 or None}

    loop = read_loop(window(trace(WORK, n=400, jitter=0.2, loader={"num_workers": 4}, each=each)))
    assert loop is not None
    assert in_rounds(loop, 4) is expected
    assert not in_rounds(loop, 0)
    assert not in_rounds(loop, None)


def test_workers_that_finish_out_of_turn_are_too_few_not_slow_samples() -> None:
    def each(n: int) -> dict[str, Any]:
        return {"phases": {"data": paced(n)}, "ready_batches": 0 if n % 4 == 0 else 1, "late_ready": 2}

    expect(
        "input-workers",
        trace(
            WORK,
            n=200,
            jitter=0.1,
            each=each,
            loader={"num_workers": 4, "batch_size": 16, "in_order": True},
            run={"cores_allowed": 8, "cores": 8},
            gpu=low(2),
            host={"cpu_pct": 10, "cores": 8},
            process={"cpu_pct": 3, "main_thread_cpu_pct": 3, "workers": workers(4, 2, state="S", wait_pct=1.0)},
        ),
    )


def test_far_too_many_workers_are_never_advised() -> None:
    records = trace(
        {"data": 300.0, **WORK},
        n=60,
        loader={"num_workers": 4, "batch_size": 16},
        run={"cores_allowed": 8, "cores": 8},
        gpu=low(2),
        host={"cpu_pct": 10, "cores": 8},
        process={"cpu_pct": 3, "main_thread_cpu_pct": 3, "workers": workers(4, 2, state="S", wait_pct=1.0)},
    )
    expect("input-workers", records)
    said = verdict(records)
    assert said.advice is not None
    assert said.advice[0].do == "num_workers 4 → 32"
    assert "try 32" in (said.advice[0].why or "")
    assert said.speedup_limit is not None
    assert 7 < said.speedup_limit < 9


@pytest.mark.parametrize("seed", [0, 1])
def test_a_minute_of_too_few_workers_is_called_that_at_every_moment_however_they_finish(seed: int) -> None:
    watch, said = Watch(), []
    for record in records("input-workers", seconds=80, seed=seed):
        watch.add(record)  # type: ignore[arg-type]
        if isinstance(record, Alive):
            said += [(one.cause, one.confidence) for one in watch.tick(record.t).values() if one.cause != "warmup"]
    assert {cause for cause, _ in said} == {"input-workers"}
    assert sum(sure > 0.9 for _, sure in said) > 0.9 * len(said)
