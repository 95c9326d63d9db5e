"""Steps that are in no mean: warm-up, the first of each epoch, those profiled on request, and a single accident."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from gputop.diagnosis.numbers import quantile
from gputop.records import Step

WARM_RATIO = 1.5
"""A step at the run's beginning is warm-up while it takes this many times the later median (allocator, autotuning)."""

LONE_RATIO = 3.0
"""One step this many times longer than the next longest is a single accident, no pattern: it is set apart and named."""

LONE_STEPS = 20
"""Steps that a window must hold before one of them may be called an accident."""

APART_LEAVES = 3
"""Steps that must remain for warm-up and epoch edges to be set apart at all."""


END_NS = 10_000_000
"""Wait at the end of a pass, beyond the usual one, from which workers are being taken down (measured 28 ms for six)."""


def set_apart(train: list[Step], lengths: list[float]) -> tuple[list[int], list[int], list[int]]:
    """Indices of steady steps, of warm-up and of later epochs' first steps."""
    everything = list(range(len(train)))
    warm = _warmup(train, lengths)
    opened = _openings(train)
    profiled = _where([step.profiled for step in train])
    if not (warm or opened or profiled):
        return everything, [], []
    firsts = [index for index in opened if index not in warm]
    apart = {*warm, *firsts, *profiled}
    keep = [index for index in everything if index not in apart]
    if len(keep) >= APART_LEAVES:
        return keep, sorted(warm), firsts
    keep = [index for index in everything if index not in warm and index not in profiled]
    if len(keep) >= APART_LEAVES:
        return keep, sorted(warm), firsts
    return everything, [], firsts


def _where(flags: Sequence[object]) -> set[int]:
    """Indices of those that are true."""
    return {index for index, flag in enumerate(flags) if flag} if any(flags) else set()


def _warmup(train: list[Step], lengths: list[float]) -> set[int]:
    kinds = [step.kind for step in train]
    warm = {index for index, kind in enumerate(kinds) if kind == "warmup"} if "warmup" in kinds else set()
    if train[0].n > 1 or len(train) < 5:
        return warm
    later = quantile(lengths[len(lengths) // 2 :], 0.5)
    if later:
        warm.add(0)
        for index in range(1, len(train) // 2):
            if lengths[index] <= WARM_RATIO * later:
                break
            warm.add(index)
    return warm


def _openings(train: list[Step]) -> list[int]:
    """Indices of the steps that open an epoch: by their own word, else by its number; not the run's first one."""
    said = [step.first_of_epoch for step in train]
    epochs = [step.epoch for step in train]
    if epochs.count(epochs[0]) == len(epochs):
        return sorted(_where(said) if train[0].n else _where(said) - {0})
    found = [0] if said[0] and train[0].n else []
    for index, (before, now) in enumerate(pairwise(epochs), 1):
        changed = now is not None and before is not None and now != before
        if said[index] if said[index] is not None else changed:
            found.append(index)
    return found


def ends_of_passes(train: list[Step], keep: list[int], firsts: list[int], waits: list[list[float]]) -> dict[int, float]:
    """The last steps of passes that waited for data at the end of the pass too, and how long beyond the usual, ns.

    `waits` are the columns of the phases that are waits for data.
    """
    kept = set(keep)
    lasts = [index - 1 for index in firsts if index - 1 in kept and train[index].n == train[index - 1].n + 1]
    if not lasts or not waits:
        return {}
    wait = [sum(column) for column in zip(*waits, strict=True)]
    usual = quantile([wait[index] for index in keep], 0.5) or 0.0
    return {index: wait[index] - usual for index in lasts if wait[index] - usual >= END_NS}


def lone_step(keep: list[int], lengths: list[float], episodic: Callable[[int], float]) -> int | None:
    """The one step that dwarfs all others, unless an evaluation or a checkpoint explains it. `episodic`: what these
    took of a step."""
    if len(keep) < LONE_STEPS:
        return None
    picked = [lengths[index] for index in keep]
    *_, rest, most = sorted(picked)
    if most <= LONE_RATIO * rest:
        return None
    longest = keep[picked.index(most)]
    return longest if most - episodic(longest) > LONE_RATIO * rest else None
