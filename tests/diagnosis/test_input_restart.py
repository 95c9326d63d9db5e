"""input-restart: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, STARVED, expect, low, reported, trace


def short_epochs(i: int) -> dict[str, Any]:
    """Epochs of 25 steps, each beginning with a long wait."""
    return {"epoch": i // 25, "first_of_epoch": i % 25 == 0, "phases": {"data": 2500 if i % 25 == 0 else 1}}


def long_epochs(i: int) -> dict[str, Any]:
    """Epochs of 100 steps, longer than a window."""
    return {"epoch": i // 100, "first_of_epoch": i % 100 == 0, "phases": {"data": 6000 if i % 100 == 0 else 1}}


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
    "no loader": lambda: trace(
        {"data": 2, "forward": 20, "backward": 30, "optimizer": 4},
        n=200,
        each=lambda i: {
            "epoch": i // 40,
            "first_of_epoch": i % 40 == 0,
            "phases": {"data": 1200 if i % 40 == 0 else 2},
        },
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


def test_epochs_longer_than_a_window_show_in_the_report() -> None:
    records = trace(
        {"data": 1, "forward": 40, "backward": 60, "optimizer": 4}, n=300, each=long_epochs,
        loader={"num_workers": 4, "persistent_workers": False},
    )  # fmt: skip
    assert reported(records).cause == CAUSE
