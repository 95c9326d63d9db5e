"""Stretches of which only some steps are held and the others summed: how many there were, and an even sample of them.

A recording of a very fast loop keeps every 2^j-th block of steps, and all that are slow or special; those left out are
summed by the second in `fold` records. A publisher that would slow a fast loop down tells some of its steps in detail,
and all that evaluate or save; the others it only counts, in `fold` records too. Judged as they lie, the slow and
special ones would count too much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import NamedTuple

from gputop.recording.thinning import BLOCK, SLOW, sampled, spacing
from gputop.records import Fold, Step

S = 1_000_000_000

FEWEST = 20
"""Steps that an even sample must have; with fewer, all that are held stand for the stretch."""

MOST = 2_000
"""Steps in a stretch in which those held stand for the others too."""

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


def evenly(steps: tuple[Step, ...], folds: Sequence[Fold], most: int = MOST) -> tuple[Step, ...]:
    """The steps as often as they were, whether they are slow or not: those that stand for others as often as these
    were, those that were kept for what they are by themselves; at most about so many, the latest."""
    train = [step for step in steps if step.kind != "eval"]
    rate = rates(train, [fold for fold in folds if not fold.counted])
    return as_they_came(steps, 1 if rate is None else spacing(rate.steps), most)


def as_they_came(steps: tuple[Step, ...], every: int = 1, most: int = MOST) -> tuple[Step, ...]:
    """Train steps, as often as there were steps that they stand for, by their numbers; about `most`, the latest.

    Of steps told in detail those that evaluated or saved, all of which are told, stand for themselves; where only one
    of so many blocks was kept, so does what was kept besides, and a block is repeated as a whole: what recurs every few
    steps still does. Without any that stand for themselves, or with fewer than FEWEST of an even sample, all stand for
    as many.
    """
    train = [step for step in steps if step.kind != "eval"]
    alone = {id(step) for step, by_itself in zip(train, by_themselves(train, every), strict=True) if by_itself}
    sample = len(train) - len(alone)
    if not alone or sample < (FEWEST if every > 1 else 1):
        return steps
    each = max(1.0, (train[-1].n - train[0].n + 1 - len(alone)) / sample)
    units: list[tuple[int, list[Step]]] = []
    for step in steps:
        block = -1 if step.kind == "eval" or id(step) in alone else step.n // BLOCK if every > 1 else step.n
        if block >= 0 and units and units[-1][0] == block:
            units[-1][1].append(step)
        else:
            units.append((block, [step]))
    out: list[Step] = []
    due = 0.0
    for block, unit in reversed(units):
        times = 1
        if block >= 0:
            due += each
            times = int(due)
            due -= times
        out += unit[::-1] * times
        if len(out) >= most:
            break
    out.reverse()
    return tuple(out)


def by_themselves(train: Sequence[Step], every: int) -> list[bool]:
    """Of train steps, of which one of so many blocks was kept, whether they were kept for what they are: they evaluate
    or save, or begin an epoch, or are slow. Of steps told in detail (`every` 1) only the first."""
    if every == 1:
        return [any(phase in step.phases_ns for phase in TOLD) for step in train]
    usual = [step.dur_ns for step in train if sampled(step, every)]
    slow_ns = SLOW * median(usual) if usual else 0
    return [
        not sampled(step, every)
        or step.dur_ns > slow_ns
        or bool(step.first_of_epoch)
        or any(phase in step.phases_ns for phase in TOLD)
        for step in train
    ]


def weights(train: Sequence[Step], folds: Iterable[Fold]) -> list[float]:
    """How many steps each of these (in time order) stands for: those that were left out or counted in its second with
    it. A second of which no step stands for others is told by the next that has some."""
    out = [1.0] * len(train)
    sums: dict[int, tuple[int, int]] = {}
    for fold in folds:
        if fold.kind in (None, "train"):
            left, counted = sums.get(fold.t // S, (0, 0))
            counts = (left, counted + fold.steps) if fold.counted else (left + fold.steps, counted)
            sums[fold.t // S] = counts
    places: dict[int, list[int]] = {}
    for place, step in enumerate(train):
        places.setdefault(step.t // S, []).append(place)
    waiting, latest = 0, list[int]()
    for second in sorted(sums.keys() | places.keys()):
        mine = places.get(second, [])
        left, counted = sums.get(second, (0, 0))
        waiting += left + counted
        some = [train[place] for place in mine]
        alone = by_themselves(some, spacing(len(some) + left) if left else 1) if waiting else []
        usual = [place for place, by_itself in zip(mine, alone, strict=False) if not by_itself]
        if usual:
            for place in usual:
                out[place] += waiting / len(usual)
            waiting, latest = 0, usual
    for place in latest:
        out[place] += waiting / len(latest)
    return out
