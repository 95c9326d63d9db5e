"""Steps with more parts than marks: what was timed changes from step to step, and what was not timed is not zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.diagnosis.evidence import gather
from gputop.diagnosis.lost import Lost
from gputop.records import AnyRecord
from tests.diagnosis.builder import MS, trace, verdict, window

PHASES = {"data": 30.0, "h2d": 4.0, "forward": 10.0, "backward": 16.0, "optimizer": 4.0}
DEVICE = {"data": 29.0, "h2d": 5.0, "forward": 9.0, "backward": 17.0, "optimizer": 4.0}
QUEUE = 0.6
"""Between what always runs dry and what never does: nothing is put in for what was not timed."""


def steps(choose: Callable[[int], tuple[str, ...]], share: dict[str, float] | None = None) -> list[AnyRecord]:
    """A loop that waits for its data, of each step of which only the chosen phases are timed, or a share of them."""

    def each(i: int) -> dict[str, Any]:
        part = share or {}
        timed = {name: round(DEVICE[name] * part.get(name, 1.0) * MS) for name in choose(i)}
        idle = {"data": timed["data"]} if "data" in timed else None
        return {"gpu_ns": timed, "gpu_idle_ns": idle, "queue_empty": QUEUE, "gpu_share": share}

    return trace(PHASES, jitter=0.0, each=each, gpu={"util_pct": 55.0}, loader={"num_workers": 2})


def lost(records: list[AnyRecord]) -> Lost:
    found = gather(window(records)).lost
    assert found is not None
    return found


def everything(_: int) -> tuple[str, ...]:
    return tuple(DEVICE)


def in_turn(i: int) -> tuple[str, ...]:
    return ("data", "h2d", "forward") if i % 4 == 0 else ("backward", "optimizer")


def settled(i: int) -> tuple[str, ...]:
    return ("data", "h2d") if i % 8 else tuple(DEVICE)


@pytest.mark.parametrize("choose", [in_turn, settled])
def test_what_a_step_has_not_timed_is_what_the_others_show(choose: Callable[[int], tuple[str, ...]]) -> None:
    whole, some = lost(steps(everything)), lost(steps(choose))
    assert whole.pct("data") == pytest.approx(100 * 29 / 64, rel=0.01)
    assert some.by == pytest.approx(whole.by, rel=0.01)
    assert some.device_ms == pytest.approx(DEVICE, rel=0.01)
    assert some.behind == whole.behind == frozenset()
    assert verdict(steps(choose)).cause == verdict(steps(everything)).cause == "input-workers"


def test_what_mostly_comes_from_other_steps_is_an_estimate() -> None:
    assert "data" in lost(steps(in_turn)).estimated
    assert "data" not in lost(steps(settled)).estimated
    assert "data" not in lost(steps(everything)).estimated


def test_a_phase_timed_in_some_of_its_places_counts_whole() -> None:
    """Four micro-batches a step, of which the loader's waits were timed in one place only."""
    some = lost(steps(everything, {"data": 0.25}))
    assert some.pct("data") == pytest.approx(100 * 29 / 64, rel=0.01)
    assert some.device_ms["data"] == pytest.approx(29, rel=0.01)
    assert "data" in some.estimated


def test_a_hundredth_of_a_phase_says_nothing_of_it() -> None:
    def each(i: int) -> dict[str, Any]:
        timed = {"data": 1 if i % 2 else 29 * MS, "forward": 9 * MS}
        share = {"data": 0.01} if i % 2 else None
        return {"gpu_ns": timed, "gpu_idle_ns": {"data": timed["data"]}, "queue_empty": QUEUE, "gpu_share": share}

    assert lost(trace(PHASES, jitter=0.0, each=each)).device_ms["data"] == pytest.approx(29, rel=0.01)


def test_a_phase_that_did_not_happen_is_zero() -> None:
    def each(i: int) -> dict[str, Any]:
        saves = i % 10 == 9
        timed = {"data": 29 * MS, "forward": 9 * MS, **({"optimizer": 40 * MS} if saves else {})}
        return {
            "phases": {"optimizer": 40.0 if saves else 0.0},
            "gpu_ns": timed,
            "gpu_idle_ns": {"data": 29 * MS},
            "queue_empty": QUEUE,
        }

    found = lost(trace(PHASES, jitter=0.0, each=each, n=200))
    assert found.device_ms["optimizer"] == pytest.approx(4, rel=0.1)
    assert found.device_ms["data"] == pytest.approx(29, rel=0.01)


def test_idle_time_is_not_put_in_where_some_of_those_parts_launched_work() -> None:
    def each(i: int) -> dict[str, Any]:
        timed = {"data": 29 * MS} if i % 3 == 0 else {"forward": 9 * MS}
        return {"gpu_ns": timed, "gpu_idle_ns": {"data": 29 * MS} if i % 6 == 0 else None, "queue_empty": 0.1}

    assert lost(trace(PHASES, jitter=0.0, each=each)).pct("data") == pytest.approx(100 * 29 / 64 / 6, rel=0.05)


def test_a_part_of_a_phase_that_no_step_has_is_no_matter() -> None:
    assert lost(steps(everything, {"never": 0.5})).by == pytest.approx(lost(steps(everything)).by)
