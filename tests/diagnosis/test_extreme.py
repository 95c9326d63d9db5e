"""Traces that no sane run writes: zeros, huge figures, NaN, one step, one time, out of order, ranks that don't fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest

from gputop.diagnosis.verdict import Judge, judge
from gputop.records import AnyRecord, Run, Step, Verdict
from gputop.timeline import Timeline
from tests.diagnosis.builder import STARVED, T0, low, ranks, window
from tests.diagnosis.test_properties import OPTIONAL, everything, keeps_its_promises

S = 1_000_000_000

LARGEST = 2**62


def figures(change: Callable[[float], float]) -> list[AnyRecord]:
    """The trace that has every field, each figure in it changed; times and names of records stay."""

    def changed(value: Any) -> Any:
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return value
        if isinstance(value, int):
            now = change(value)
            return int(now) if math.isfinite(now) else value
        if isinstance(value, float):
            return float(change(value))
        if isinstance(value, dict):
            return {name: changed(one) for name, one in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(changed(one) for one in value)
        if isinstance(value, msgspec.Struct):
            return _with(value, {name: changed(getattr(value, name)) for name in value.__struct_fields__})
        return value

    kept = OPTIONAL - {"phases_ns", "dur_ns"}
    return [
        _with(r, {name: changed(getattr(r, name)) for name in r.__struct_fields__ if name not in kept})
        for r in everything()
    ]


def _with(record: Any, fields: dict[str, Any]) -> Any:
    return msgspec.structs.replace(record, **fields)


def of_steps(change: Callable[[int, Step], Step | None]) -> list[AnyRecord]:
    """The same trace with its steps changed by their place in it, or left out."""
    out: list[AnyRecord] = []
    place = 0
    for record in everything():
        if not isinstance(record, Step):
            out.append(record)
            continue
        step = change(place, record)
        place += 1
        if step is not None:
            out.append(step)
    return out


def shuffled() -> list[AnyRecord]:
    found = everything()
    Random(1).shuffle(found)
    return found


def job(change: Callable[[int, Step], Step]) -> list[AnyRecord]:
    """A job of four ranks, timed by the device, whose steps are changed by the rank."""
    made = ranks(lambda _: {"phases": STARVED, "device": {"forward": 20, "backward": 30, "comm": 5}, "gpu": low()}, 4)
    world = {r.run_id: r.rank or 0 for r in made if isinstance(r, Run)}
    return [change(world[r.run_id], r) if isinstance(r, Step) else r for r in made]


EXTREME: dict[str, Callable[[], list[AnyRecord]]] = {
    "every figure zero": lambda: figures(lambda _: 0),
    "every figure one": lambda: figures(lambda _: 1),
    "every figure the largest": lambda: figures(lambda _: LARGEST),
    "every figure negative": lambda: figures(lambda value: -abs(value) - 1),
    "every figure a thousandth": lambda: figures(lambda value: value / 1000),
    "every figure a million times as large": lambda: figures(lambda value: value * 1e6),
    "no figure a number": lambda: figures(lambda _: math.nan),
    "every figure infinite": lambda: figures(lambda _: math.inf),
    "one step": lambda: of_steps(lambda place, step: step if place == 0 else None),
    "two steps": lambda: of_steps(lambda place, step: step if place < 2 else None),
    "every step at the same time": lambda: of_steps(lambda _, step: _with(step, {"t": T0})),
    "every step the same number": lambda: of_steps(lambda _, step: _with(step, {"n": 7})),
    "steps counted backwards": lambda: of_steps(lambda place, step: _with(step, {"n": 1000 - place})),
    "steps of no length": lambda: of_steps(lambda _, step: _with(step, {"dur_ns": 0})),
    "steps without phases": lambda: of_steps(lambda _, step: _with(step, {"phases_ns": {}})),
    "phases of other names in each step": lambda: of_steps(
        lambda place, step: _with(step, {"phases_ns": {f"part {place}": step.dur_ns}})
    ),
    "one step of an hour": lambda: of_steps(
        lambda place, step: _with(step, {"dur_ns": 3600 * S}) if place == 30 else step
    ),
    "each step an epoch": lambda: of_steps(lambda place, step: _with(step, {"epoch": place, "first_of_epoch": True})),
    "every step of validation": lambda: of_steps(lambda _, step: _with(step, {"kind": "eval", "had_backward": False})),
    "out of order": shuffled,
    "everything twice": lambda: [*everything(), *everything()],
    "no steps": lambda: [r for r in everything() if not isinstance(r, Step)],
    "ranks that share no step": lambda: job(lambda rank, step: _with(step, {"n": step.n + 1000 * rank})),
    "a rank whose device took no time": lambda: job(
        lambda rank, step: step if rank else _with(step, {"gpu_ns": dict.fromkeys(step.gpu_ns or {}, 0)})
    ),
    "ranks of which one is timed": lambda: job(lambda rank, step: _with(step, {"gpu_ns": None}) if rank else step),
    "a rank's device times the largest": lambda: job(
        lambda rank, step: step if rank else _with(step, {"gpu_ns": dict.fromkeys(step.gpu_ns or {}, LARGEST)})
    ),
    "a late rank that nobody waits for": lambda: job(
        lambda rank, step: _with(
            step, {"gpu_ns": {"forward": 20_000_000 if rank else 80_000_000, "backward": 10_000_000}}
        )
    ),
    "ranks whose steps have no length": lambda: job(lambda _, step: _with(step, {"dur_ns": 0, "phases_ns": {}})),
}
"""Traces by what is wrong with them."""


@pytest.mark.parametrize("name", EXTREME)
def test_it_gets_a_verdict_that_keeps_its_promises(name: str) -> None:
    records = EXTREME[name]()
    keeps_its_promises(finite(judge(window(records, run_of(records)))))


@pytest.mark.parametrize("name", EXTREME)
def test_watched_as_it_comes_in_each_verdict_does(name: str) -> None:
    records = EXTREME[name]()
    timeline, held, latest = Timeline(), Judge(), T0
    for place, record in enumerate(records, 1):
        timeline.add(record)
        latest = max(latest, record.t)
        if run_of(records) in timeline.runs and (place % 40 == 0 or place == len(records)):
            keeps_its_promises(finite(held.update(timeline.window(run_of(records), latest))))


def run_of(records: list[AnyRecord]) -> str:
    return next(record.run_id for record in records if isinstance(record, Run))


def finite(said: Verdict) -> Verdict:
    """The verdict with its evidence as JSON has it, which knows no infinite figure."""
    known = [one if math.isfinite(one.value or 0) else _with(one, {"value": None}) for one in said.evidence]
    return msgspec.structs.replace(said, evidence=known)
