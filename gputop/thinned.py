"""Stretches of which only some steps are held and the others summed: how many there were, and an even sample of them.

A recording of a very fast loop keeps every 2^j-th block of steps, and all that are slow or special; those left out are
summed by the second in `fold` records. A publisher that would slow a fast loop down tells some of its steps in detail,
and all that evaluate or save; the others it only counts, in `fold` records too. Judged as they lie, the slow and
special ones would count too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gputop.recording.thinning import sampled, spacing
from gputop.records import Fold, Step

S = 1_000_000_000

FEWEST = 20
"""Steps that an even sample must have; with fewer, all that are held stand for the stretch."""

MOST = 2_000
"""Steps in a stretch in which those told in detail stand for the counted ones too."""

TOLD = ("eval", "checkpoint")
"""Phases that no step is only counted for."""


class Rates(NamedTuple):
    """Steps and samples a second; samples None where no step says how many it had."""

    steps: float
    samples: float | None


def within_seconds(folds: Iterable[Fold], steps: Sequence[Step]) -> tuple[Fold, ...]:
    """The sums of steps left out among these (in time order): those of the seconds that the steps span."""
    if not steps:
        return ()
    first, last = steps[0].t // S, (steps[-1].t + steps[-1].dur_ns) // S
    return tuple(fold for fold in folds if first <= fold.t // S <= last)


def rates(steps: Sequence[Step], folds: Sequence[Fold]) -> Rates | None:
    """How fast the train steps came, those left out with them; None where nothing tells.

    Counted over whole seconds: a second's steps are either held or in its folds. The last one may still lack some.
    """
    if not steps or not folds:
        return None
    first, last = -(-steps[0].t // S), max(fold.t for fold in folds) // S
    if last > first:
        held: Sequence[Step] = [step for step in steps if first <= step.t // S < last]
        summed: Sequence[Fold] = [fold for fold in folds if first <= fold.t // S < last]
        span_ns = (last - first) * S
    else:
        held, summed = steps, folds
        span_ns = sum(step.dur_ns for step in held) + sum(fold.dur_ns for fold in summed)
    count = len(held) + sum(fold.steps for fold in summed)
    if span_ns <= 0 or not count:
        return None
    known = [one.samples for one in held if one.samples is not None]
    known += [one.samples for one in summed if one.samples is not None]
    return Rates(count * S / span_ns, sum(known) * S / span_ns if known else None)


def evenly(steps: tuple[Step, ...], folds: Sequence[Fold]) -> tuple[Step, ...]:
    """Every 2^j-th block of the train steps, and all others: what is kept of a stretch whether it is slow or not.

    Counted steps are no reason to leave any out: the ones told in detail are an even sample of all.
    """
    left_out = [fold for fold in folds if not fold.counted]
    if len(left_out) < len(folds):
        steps = as_they_came(steps)
    train = [step for step in steps if step.kind != "eval"]
    rate = rates(train, left_out)
    if rate is None:
        return steps
    every = spacing(rate.steps)
    sample = tuple(step for step in steps if step.kind == "eval" or sampled(step, every))
    return sample if sum(step.kind != "eval" for step in sample) >= FEWEST else steps


def as_they_came(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Train steps told in detail, as often as there were steps that they stand for, by their numbers; of MOST steps.

    Those that evaluated or saved, all of which are told, stand for themselves. Without any, all stand for as many.
    """
    train = [step for step in steps if step.kind != "eval"]
    alone = {id(step) for step in train if any(phase in step.phases_ns for phase in TOLD)}
    sample = len(train) - len(alone)
    if not alone or not sample:
        return steps
    each = max(1.0, (train[-1].n - train[0].n + 1 - len(alone)) / sample)
    out: list[Step] = []
    due = 0.0
    for step in reversed(steps):
        times = 1
        if step.kind != "eval" and id(step) not in alone:
            due += each
            times = int(due)
            due -= times
        out += [step] * times
        if len(out) >= MOST:
            break
    out.reverse()
    return tuple(out)
