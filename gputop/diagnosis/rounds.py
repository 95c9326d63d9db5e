"""Workers that keep pace: each round of theirs ends in one long wait, whichever of them finishes first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gputop.diagnosis.loop import Loop
from gputop.diagnosis.numbers import ranked

ROUND_SHARE = 0.5
"""Share of the wait that falls on one place of the round from which the workers keep pace."""

ROUNDS = 5
"""Rounds looked at together: the place of the long wait shifts when two workers change places."""

LEAST_ROUNDS = 3
"""Rounds that show a beat."""


def in_rounds(loop: Loop, workers: int | None) -> bool:
    """Whether the long waits come once a round of the workers, in most rounds.

    A slow sample now and then is long at one place of one round; the median over the rounds tells the two apart.
    """
    if not workers or workers < 2:
        return False
    at_beat = told = 0.0
    for waits in _passes(loop):
        for start in range(0, len(waits), ROUNDS * workers):
            some = waits[start : start + ROUNDS * workers]
            if len(some) >= LEAST_ROUNDS * workers:
                told += sum(some)
                at_beat += max(_usual(some[place::workers]) for place in range(workers))
    return told > 0 and at_beat >= ROUND_SHARE * told


def _usual(waits: Sequence[float]) -> float:
    """What the waits at one place of the round add up to, were each as long as the usual one."""
    return ranked(sorted(waits), 0.5) * len(waits)


def _passes(loop: Loop) -> Iterator[list[float]]:
    """The waits for data, ms, of each stretch of successive steps of one pass."""
    column = loop.roles.get("data") or []
    waits: list[float] = []
    before = None
    for step, wait in zip(loop.steps, column, strict=False):
        if waits and (before is None or step.n != before + 1 or step.first_of_epoch):
            yield waits
            waits = []
        waits.append(wait)
        before = step.n
    if waits:
        yield waits
