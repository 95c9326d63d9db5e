"""Steps that compile or tune anew: with an input shape not met before, or with a compiler's own word that it did."""

from __future__ import annotations

import msgspec

from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.loop import Loop

NEW_SHAPES = 3
"""Steps with a new input shape, or recompilations, from which they are a pattern."""

CALM_STEPS = 3
CALM_SHARE = 0.1
"""Steps without either, and their share of all, from which they tell what a step takes otherwise."""


class Recompiles(msgspec.Struct, frozen=True):
    """`count` such steps, `told` of them by the compiler's word. `excess_pct` of wall time is what they take beyond the
    others; None where nearly every step is one. `shapes`: how many were met so far."""

    count: int
    told: int
    excess_pct: float | None
    shapes: int | None


@once
def recompiles(facts: Facts) -> Recompiles | None:
    """The steps of a window that compile or tune; None where there are too few for a pattern."""
    loop = facts.loop
    if loop is None:
        return None
    shapes = [step.shapes for step in loop.steps]
    if shapes.count(None) == loop.n and not facts.window.events:
        return None
    fresh = {
        index
        for index in range(1, loop.n)
        if shapes[index] is not None and shapes[index - 1] is not None and shapes[index] != shapes[index - 1]
    }
    told = _told(facts, loop)
    fresh |= told
    if len(fresh) < NEW_SHAPES:
        return None
    calm = sorted(loop.dur[index] for index in range(loop.n) if index not in fresh)
    excess = None
    if len(calm) >= max(CALM_STEPS, CALM_SHARE * loop.n):
        usual = calm[len(calm) // 2]
        excess = 100 * sum(max(0.0, loop.dur[index] - usual) for index in fresh) / sum(loop.dur)
    latest = next((number for number in reversed(shapes) if number is not None), None)
    return Recompiles(len(fresh), len(told), excess, latest)


def _told(facts: Facts, loop: Loop) -> set[int]:
    """The steps during which a compiler said that it compiles again."""
    compiles = sorted(event.t for event in facts.window.events if event.kind == "recompile")
    found: set[int] = set()
    index = 0
    for t in compiles:
        while index < loop.n and loop.steps[index].t + loop.steps[index].dur_ns <= t:
            index += 1
        if index < loop.n and loop.steps[index].t <= t:
            found.add(index)
    return found
