"""Very fast loops: a second's steps are thinned, and those left out are summed, so that no figure is lost."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from gputop.records import Fold, Step

S = 1_000_000_000

EXACT_RATE = 200
"""Steps a second of a rank up to which every one is kept."""

KEPT_RATE = 100
"""Evenly taken steps a second that are kept of a faster one."""

BLOCK = 32
"""Steps are kept and left out in blocks of so many: what recurs every few steps (every worker's turn) is neither always
nor never met by the ones kept."""

SLOW = 3.0
"""A step this many times the median is kept: spikes are what an exact step is for."""


class Thinned(msgspec.Struct, frozen=True):
    """The steps of one run to keep, in order, and the sums of the others, one a second."""

    kept: list[Step]
    folds: list[Fold]


def thin(steps: Sequence[Step], trains: Sequence[bool]) -> Thinned:
    """Thin one run's steps of a moment; `trains` says of each whether it is a train step.

    Of a run above EXACT_RATE every 2^j-th block of BLOCK train steps by number stays (all ranks keep the same ones),
    besides the slow ones, the first of an epoch, and those that saved or validated.
    """
    span_ns = max(S, max(step.t + step.dur_ns for step in steps) - min(step.t for step in steps))
    rate = len(steps) * S / span_ns
    if rate <= EXACT_RATE:
        return Thinned(list(steps), [])
    every = spacing(rate)
    slow_ns = SLOW * median(step.dur_ns for step in steps)
    kept: list[Step] = []
    left: dict[int, list[Step]] = {}
    for step, train in zip(steps, trains, strict=True):
        phases = step.phases_ns
        special = not train or step.partial or step.first_of_epoch or "checkpoint" in phases or "eval" in phases
        if sampled(step, every) or special or step.dur_ns > slow_ns:
            kept.append(step)
        else:
            left.setdefault(step.t // S, []).append(step)
    return Thinned(kept, [fold(some) for some in left.values()])


def spacing(rate: float) -> int:
    """Of how many blocks one is kept, at so many steps a second."""
    every = 1
    while rate / every > KEPT_RATE:
        every *= 2
    return every


def sampled(step: Step, every: int) -> bool:
    """Whether a step is one of every so many blocks."""
    return step.n // BLOCK % every == 0


def fold(steps: Sequence[Step]) -> Fold:
    """Steps of one run, summed."""
    phases: dict[str, int] = {}
    for step in steps:
        for phase, ns in step.phases_ns.items():
            phases[phase] = phases.get(phase, 0) + ns
    durations = [step.dur_ns for step in steps]
    samples = [step.samples for step in steps if step.samples is not None]
    return Fold(
        t=min(step.t for step in steps), run_id=steps[0].run_id, steps=len(steps), dur_ns=sum(durations),
        phases_ns=phases, min_ns=min(durations), max_ns=max(durations),
        samples=sum(samples) if samples else None, kind="train",
    )  # fmt: skip
