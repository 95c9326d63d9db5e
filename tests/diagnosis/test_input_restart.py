"""input-restart: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.diagnosis.evidence import gather
from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, STARVED, expect, low, reported, trace, verdict, window


def short_epochs(i: int) -> dict[str, Any]:
    """Epochs of 25 steps, each beginning with a long wait."""
    return {"epoch": i // 25, "first_of_epoch": i % 25 == 0, "phases": {"data": 2500 if i % 25 == 0 else 1}}


def long_epochs(i: int) -> dict[str, Any]:
    """Epochs of 100 steps, longer than a window."""
    return {"epoch": i // 100, "first_of_epoch": i % 100 == 0, "phases": {"data": 6000 if i % 100 == 0 else 1}}


def epochs_of_ten(i: int) -> dict[str, Any]:
    """Epochs of 10 steps: workers are started in the first of each, and taken down in the last."""
    first, last = i % 10 == 0, i % 10 == 9
    phases = {"data": 78, "forward": 10, "backward": 12, "optimizer": 38} if first else {"data": 29 if last else 1}
    ready = 3 if first else 10 - i % 10
    return {"epoch": i // 10, "first_of_epoch": first, "phases": phases, "ready_batches": ready}


CAUSE = "input-restart"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "epochs": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=short_epochs,
        loader={"num_workers": 4, "persistent_workers": False},
        gpu=low(),
    ),
    "idle": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {**short_epochs(i), "gpu_idle_ns": {"data": 2_490_000_000 if i % 25 == 0 else 100_000}},
        n=300,
        loader={"num_workers": 4, "persistent_workers": False},
        queue_empty=0.1,
    ),
    "first only, n=200": lambda: trace(
        {"data": 2, "forward": 20, "backward": 30, "optimizer": 4},
        n=200,
        each=lambda i: {
            "epoch": i // 40,
            "first_of_epoch": i % 40 == 0,
            "phases": {"data": 1200 if i % 40 == 0 else 2},
        },
        loader={"num_workers": 8, "persistent_workers": False, "batches": 40},
    ),
    "the last epoch's beginning begins the window": lambda: trace(
        {"train_step": 105},
        n=1000,
        each=lambda i: {"first_of_epoch": i % 315 == 0, "phases": {"data": 10_000 if i % 315 == 0 else 0}},
    ),
    "no loader": lambda: trace(
        {"data": 2, "forward": 20, "backward": 30, "optimizer": 4},
        n=200,
        each=lambda i: {
            "epoch": i // 40,
            "first_of_epoch": i % 40 == 0,
            "phases": {"data": 1200 if i % 40 == 0 else 2},
        },
    ),
    "a real loop on two cores, as it was recorded: six workers taken down and started in each epoch of ten": lambda: (
        trace(
            {"data": 1, "forward": 2.2, "backward": 2, "optimizer": 4},
            n=300,
            each=epochs_of_ten,
            run={"device": "cpu", "cores_allowed": 2},
            no_gpu=True,
            loader={"num_workers": 6, "persistent_workers": False, "in_order": True},
            host={"cpu_pct": 93, "system_pct": 43, "cores": 2},
            process={"cpu_pct": 80, "main_thread_cpu_pct": 78, "main_thread_wait_pct": 10, "tree_cpu_pct": 183},
        )
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-workers: steps only": lambda: trace(STARVED),
    "warmup: 20 of 40": lambda: trace(
        COMPUTE, n=40, each=lambda i: {"shapes": 1, "phases": {"forward": 4000 if i < 3 else 30}}
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def epochs_of_twelve(i: int) -> dict[str, Any]:
    """Epochs of 12 steps: the first updates after two workers were started copy the memory that they share."""
    first, last = i % 12 == 0, i % 12 == 11
    phases = {"data": 31, "forward": 3.4, "backward": 6.2, "optimizer": 18} if first else {"data": 14 if last else 1}
    return {"epoch": i // 12, "first_of_epoch": first, "phases": phases}


def test_what_starting_workers_makes_slow_goes_with_them() -> None:
    """A real loop that was 1.57 times as fast with workers that stay, and was called cpu-bound: waits were 24 %."""
    persistent, anew = (
        verdict(
            trace(
                {"data": 1, "forward": 1.6, "backward": 1.8, "optimizer": 3.3},
                n=600,
                each=epochs_of_twelve,
                run={"device": "cpu", "cores_allowed": 2},
                no_gpu=True,
                loader={"num_workers": 2, "persistent_workers": kept},
                process={"cpu_pct": 80, "main_thread_cpu_pct": 78, "tree_cpu_pct": 113},
            )
        )
        for kept in (True, False)
    )
    assert anew.cause == CAUSE
    assert anew.speedup_limit == pytest.approx(1.57, rel=0.15)
    assert persistent.share_pct is not None
    assert anew.share_pct is not None
    assert persistent.share_pct < anew.share_pct - 4


def test_epochs_longer_than_a_window_show_in_the_report() -> None:
    records = trace(
        {"data": 1, "forward": 40, "backward": 60, "optimizer": 4}, n=300, each=long_epochs,
        loader={"num_workers": 4, "persistent_workers": False},
    )  # fmt: skip
    assert reported(records).cause == CAUSE


def test_what_epochs_beginnings_take_is_no_other_cures_to_promise() -> None:
    def each(n: int) -> dict[str, Any]:
        first = n % 20 == 0
        return {"first_of_epoch": first or None, "epoch": n // 20, "phases": {"data": 1000.0 if first else 60.0}}

    plain = verdict(trace(STARVED, n=200, loader={"num_workers": 2}, gpu=low()))
    both = verdict(
        trace(STARVED, n=200, each=each, loader={"num_workers": 2, "persistent_workers": False}, gpu=low())
    )  # fmt: skip
    assert plain.cause == both.cause == "input-workers"
    assert plain.speedup_limit is not None
    assert both.speedup_limit is not None
    lost = 900 / (1000 + 19 * 98 + 38)
    assert both.speedup_limit == pytest.approx(1 / (lost + (1 - lost) / plain.speedup_limit), rel=0.1)


def test_an_epochs_first_step_is_set_apart_where_the_window_begins_with_it_too() -> None:
    """Else its wait counts as one of the steady ones, of workers that can't keep up."""
    records = trace(
        {"data": 1, "forward": 90, "backward": 180, "optimizer": 29}, n=62,
        each=lambda i: {"epoch": i // 31, "first_of_epoch": i % 31 == 0,
                        "phases": {"data": 4200 if i % 31 == 0 else 1}},
        loader={"num_workers": 4, "persistent_workers": False}, gpu=low(), host={"cpu_pct": 5, "cores": 32},
    )  # fmt: skip
    seen = window(records)
    assert seen.steps[0].n == 31
    loop = gather(seen).loop
    assert loop is not None
    assert len(loop.firsts) == 1
    assert loop.ms("data") < 2
