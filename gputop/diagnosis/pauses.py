"""Pauses of the interpreter's garbage collector: what they take of the steps, as the publisher timed them."""

from __future__ import annotations

from typing import NamedTuple

from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.numbers import period


class Pauses(NamedTuple):
    """`number` pauses of `mean_ms` that take `pct` of wall time; `period`: steps from one to the next, at a beat."""

    number: int
    mean_ms: float
    pct: float
    period: int | None


@once
def pauses(facts: Facts) -> Pauses | None:
    """The collector's pauses in the steady steps; None where there were none."""
    loop = facts.loop
    told = [(event.t, event.dur_ns) for event in facts.window.events if event.kind == "gc" and event.dur_ns]
    if loop is None or not told:
        return None
    places, spent = [], 0
    index = 0
    for t, ns in sorted(told):
        while index < loop.n and loop.steps[index].t + loop.steps[index].dur_ns <= t:
            index += 1
        if index < loop.n and loop.steps[index].t <= t:
            places.append(loop.steps[index].n)
            spent += ns
    if not places:
        return None
    return Pauses(len(places), spent / len(places) / 1e6, 100 * spent / 1e6 / sum(loop.dur), period(places))
