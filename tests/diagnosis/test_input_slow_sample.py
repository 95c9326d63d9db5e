"""input-slow-sample: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import MS, STARVED, expect, low, trace, verdict, workers


def one_slow(i: int) -> dict[str, Any]:
    """One batch in ten is late while later ones lie ready."""
    return {"phases": {"data": 400 if i % 10 == 0 else 1}, "late_ready": 5 if i % 10 == 0 else 0, "ready_batches": 5}


CAUSE = "input-slow-sample"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "late": lambda: trace(
        {"h2d": 2, "forward": 12, "backward": 20, "optimizer": 4, "data": 1},
        each=one_slow,
        loader={"num_workers": 8, "in_order": True},
        gpu=low(45),
        host={"cpu_pct": 20, "cores": 16},
    ),
    "no queue told: rarer than the workers' rounds, one of them at work": lambda: trace(
        {"data": 0.1, "forward": 3, "backward": 6, "optimizer": 2, "sync": 280},
        each=lambda i: {"phases": {"data": 9_000 if i % 21 in (4, 12) else 0.1}},
        loader={"num_workers": 3, "pin_memory": True},
        host={"cpu_pct": 12, "cores": 16, "iowait_pct": 0.2, "disk_busy_pct": 0},
        process={"cpu_pct": 30, "workers": workers(3, 36)},
    ),
    "steps only": lambda: trace({"h2d": 2, "forward": 12, "backward": 20, "optimizer": 4, "data": 1}, each=one_slow),
    "a real loop on two cores, as it was recorded: later batches lie ready before the wait begins": lambda: trace(
        {"data": 0.1, "forward": 3.2, "backward": 4.7, "optimizer": 7.3},
        each=lambda i: {"phases": {"data": 385 if i % 10 == 5 else 0.1}, "ready_batches": 6 if i % 10 > 5 else 5},
        run={"device": "cpu", "cores_allowed": 2},
        loader={"num_workers": 4, "prefetch_factor": 2, "in_order": True, "persistent_workers": True},
        host={"cpu_pct": 80, "cores": 2},
        process={"cpu_pct": 30, "main_thread_cpu_pct": 30, "workers": workers(4, 1)},
    ),
    "random": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {
            "phases": {"data": 300 if i in (7, 19, 23, 40, 41, 66, 78, 90, 111) else 1},
            "late_ready": 6 if i in (7, 19, 23, 40, 41, 66, 78, 90, 111) else 0,
            "ready_batches": 6 if i in (7, 19, 23, 40, 41, 66, 78, 90, 111) else 8,
        },
    ),
    "idle": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {
            "phases": {"data": 300 if i % 12 == 5 else 1},
            "late_ready": 6 if i % 12 == 5 else 0,
            "gpu_idle_ns": {"data": 295 * MS if i % 12 == 5 else 100000},
            "queue_empty": 0.1,
        },
        loader={"num_workers": 8, "prefetch_factor": 2},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-workers: 4 workers sawtooth": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {"phases": {"data": 2 if i % 4 else 230}},
        loader={"num_workers": 4},
        host={"cpu_pct": 25, "cores": 16},
        process={"cpu_pct": 40, "workers": workers(4, 97)},
    ),
    "input-workers: a lone worker": lambda: trace(
        {"data": 82, "forward": 13, "backward": 37, "optimizer": 4},
        each=lambda i: {"phases": {"data": (201, 45, 1, 209, 53, 105, 33, 6, 206, 73)[i % 10]}, "late_ready": 1},
        loader={"num_workers": 1, "prefetch_factor": 2, "in_order": True},
        host={"cpu_pct": 10, "cores": 16},
    ),
    "input-workers: workers that never stop, in no order": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {
            "phases": {"data": (4, 2, 90, 160, 3, 1, 2, 60, 4, 2, 130, 1, 140)[i % 13]},
            "ready_batches": 0,
            "late_ready": 2,
        },
        loader={"num_workers": 4, "prefetch_factor": 2, "in_order": True},
        host={"cpu_pct": 28, "cores": 16},
        process={"cpu_pct": 40, "workers": workers(4, 96)},
    ),
    "input-transfer: ready": lambda: trace(
        STARVED, ready_batches=6, late_ready=0, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 20, "cores": 16}
    ),
    "input-cpu: gpu idle": lambda: trace(
        STARVED,
        idle={"data": 58},
        queue_empty=0.9,
        loader={"num_workers": 8},
        gpu=low(),
        host={"cpu_pct": 97, "cores": 8},
        process={"cpu_pct": 30, "workers": workers(8, 93)},
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def test_what_is_promised_leaves_the_workers_their_work() -> None:
    """A real loop whose every tenth batch took a worker half a second: in any order it was 3.6 times as fast, not 5.5.

    With many usual waits of 3 to 5 ms, as another process beside it makes them, 0.4 times was promised.
    """
    for usual_ms in (1, 4):
        said = verdict(
            trace(
                {"data": 1, "forward": 1.4, "backward": 1.7, "optimizer": 5.4},
                n=340,
                each=lambda i, usual_ms=usual_ms: {
                    "phases": {"data": 435 if i % 10 == 7 else usual_ms if i % 3 else 0.5},
                    "late_ready": 5,
                },
                run={"device": "cpu", "cores_allowed": 2},
                loader={"num_workers": 4, "in_order": True},
                process={"workers": workers(4, 1)},
            )
        )
        assert said.cause == CAUSE
        assert said.speedup_limit is not None
        assert 3.1 < said.speedup_limit < 4.2


def test_a_loader_that_takes_batches_in_any_order_is_held_up_by_none_of_them() -> None:
    """A real loop cured by in_order=False whose workers slept too much for three of them: one more is what it wants."""
    expect(
        "input-workers",
        trace(
            {"data": 1, "forward": 1.7, "backward": 1.9, "optimizer": 8.8},
            n=600,
            each=lambda i: {"phases": {"data": 45 if i % 8 == 5 else 1}, "late_ready": 3, "ready_batches": 3},
            run={"device": "cpu", "cores_allowed": 2},
            no_gpu=True,
            loader={"num_workers": 3, "prefetch_factor": 12, "in_order": False, "persistent_workers": True},
            host={"cpu_pct": 40, "cores": 2},
            process={
                "cpu_pct": 65,
                "main_thread_cpu_pct": 62,
                "main_thread_wait_pct": 4,
                "workers": workers(3, 2, wait_pct=1, state="S"),
            },
        ),
    )


def test_neighbours_on_the_cores_say_nothing_of_workers_that_sleep() -> None:
    """A real loop whose workers waited at 1 % of a core each, beside others that had 1.6 of 2: it was 0.42 sure."""
    expect(
        CAUSE,
        trace(
            {"data": 1, "forward": 2, "backward": 2.5, "optimizer": 5.5},
            n=400,
            each=lambda i: {"phases": {"data": 420 if i % 20 == 7 else 1}, "late_ready": 5},
            run={"device": "cpu", "cores_allowed": 2},
            no_gpu=True,
            loader={"num_workers": 4, "in_order": True},
            host={"cpu_pct": 96, "cores": 2},
            process={"cpu_pct": 33, "main_thread_cpu_pct": 33, "main_thread_wait_pct": 4, "tree_cpu_pct": 37,
                     "workers": workers(4, 1, wait_pct=0, state="S")},
        ),
        0.6,
    )  # fmt: skip
