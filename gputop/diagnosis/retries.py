"""Retries of the device's allocator: how many there were, and how much longer the steps with one take."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from gputop.diagnosis.loop import Loop
from gputop.records import Step

MOST_STEPS = 0.5
"""Share of steps with a retry from which too few calm ones are left to compare with."""

CALM_STEPS = 3
"""Steps without a retry that the comparison takes at least."""


class Retries(msgspec.Struct, frozen=True):
    """`count` retries, at `rate` a step; `excess_pct` of wall time is what steps with one take beyond the calm ones.

    `excess_pct` is None where nearly every step has one, so that there is nothing to compare with.
    """

    count: int
    rate: float
    excess_pct: float | None


def retries(loop: Loop) -> Retries | None:
    """The retries of a loop's steady steps; None where they were not counted."""
    counted = [step.alloc_retries for step in loop.steps if step.alloc_retries is not None]
    if len(counted) < 2:
        return None
    number = max(0, counted[-1] - counted[0])
    return Retries(number, number / loop.n, _excess(loop, _grew(loop.steps)))


def _grew(steps: Sequence[Step]) -> list[bool]:
    flags = [False]
    for before, step in pairwise(steps):
        flags.append(before.alloc_retries is not None and (step.alloc_retries or 0) > before.alloc_retries)
    return flags


def _excess(loop: Loop, flags: list[bool]) -> float | None:
    calm = sorted(ms for ms, flag in zip(loop.dur, flags, strict=True) if not flag)
    if sum(flags) > MOST_STEPS * loop.n or len(calm) < CALM_STEPS:
        return None
    usual = calm[len(calm) // 2]
    extra = sum(max(0.0, ms - usual) for ms, flag in zip(loop.dur, flags, strict=True) if flag)
    return 100 * extra / sum(loop.dur)
