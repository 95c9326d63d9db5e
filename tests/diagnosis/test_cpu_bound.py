"""cpu-bound: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, expect, low, trace, verdict

CAUSE = "cpu-bound"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "plain": lambda: trace(
        COMPUTE,
        run={"device": "cpu", "cores_allowed": 8},
        no_gpu=True,
        host={"cpu_pct": 95, "cores": 8},
        process={"cpu_pct": 760},
    ),
    "steps only": lambda: trace(COMPUTE, run={"device": "cpu"}),
    "with loader": lambda: trace(
        {"data": 1, "forward": 80, "backward": 150, "optimizer": 8},
        run={"device": "cpu", "cores_allowed": 4},
        no_gpu=True,
        loader={"num_workers": 0},
        host={"cpu_pct": 98, "cores": 4},
        process={"cpu_pct": 390, "main_thread_cpu_pct": 98, "main_thread_wait_pct": 1},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "cpu-fallback: whole": lambda: trace(
        {"data": 1, "forward": 300, "backward": 500, "optimizer": 20},
        n=40,
        run={"device": "cpu"},
        model={"devices": {"cpu": 1000}},
        gpu=low(0, processes=[]),
    ),
    "input-workers: cpu run steps only": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4}, run={"device": "cpu"}, loader={"num_workers": 0}
    ),
    "host-work: cpu": lambda: trace(
        {"data": 1, "forward": 5, "backward": 6, "optimizer": 1}, ms=28, run={"device": "cpu"}, no_gpu=True
    ),
}
"""Traces that look like it, named after what they are."""


def test_where_no_loader_is_seen_it_is_less_sure_and_says_what_would_tell() -> None:
    bare = {"forward": 30, "backward": 50, "optimizer": 4}
    seen, unseen = (
        verdict(trace(bare, run={"device": "cpu"}, no_gpu=True, had_backward=True, loader_id=number))
        for number in (0, None)
    )
    known = verdict(trace({**bare, "data": 5}, run={"device": "cpu"}, no_gpu=True, had_backward=True))
    assert (seen.cause, unseen.cause, known.cause) == (CAUSE, CAUSE, CAUSE)
    assert unseen.confidence < min(seen.confidence, known.confidence) - 0.1
    assert any("gputop.steps" in notice for notice in unseen.notices or [])
    assert not any("gputop.steps" in notice for notice in [*(seen.notices or []), *(known.notices or [])])


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
