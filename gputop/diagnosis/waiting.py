"""How ranks wait for each other in the exchange, step by step: whom for, and what it takes when nobody is late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import nsmallest
from typing import NamedTuple, TypeVar

from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.loop import LONG_RATIO, LONG_SHARE
from gputop.diagnosis.numbers import median, period
from gputop.diagnosis.ranks import LEAST, Rank, Ranks, ranks


class Lateness(NamedTuple):
    """How much later one rank comes to the exchange than any other: ms per step, and the mean step, over the same."""

    ms: float
    step_ms: float


def lateness(sides: Ranks, late: Rank) -> Lateness | None:
    """What the steps would be shorter if this rank never came after all others; over whole periods where it does so
    only now and then. None where it is not known of the same steps of all.
    """
    return kept(sides, f"lateness of {late.rank}", lambda sides: _lateness(sides, late))


def _lateness(sides: Ranks, late: Rank) -> Lateness | None:
    numbers = common(sides)
    if not numbers:
        return None
    gained = []
    for n in numbers:
        first, second = nsmallest(2, [side.waits[n] for side in sides])
        gained.append(second - first if late.waits[n] == first else 0.0)
    lengths = [late.steps[n].dur_ns / 1e6 for n in numbers]
    some = _whole_periods(numbers, gained, lengths)
    return Lateness(sum(gained[some]) / len(gained[some]), sum(lengths[some]) / len(gained[some]))


RARE_SHARE = 0.3
"""Share of the steps up to which long ones come now and then."""


def _whole_periods(numbers: Sequence[int], values: Sequence[float], lengths: Sequence[float]) -> slice:
    """From the first of a few large values, which make up most of all and come with a beat, to before the last.

    `numbers` and `lengths` are the steps'. What comes at no beat may well come once more in the time after the last.
    """
    bar = max(LONG_RATIO * (median(values) or 0.0), LONG_SHARE * (median(lengths) or 0.0), max(values) / LONG_RATIO)
    places = [index for index, value in enumerate(values) if value > bar]
    rare = 2 <= len(places) <= RARE_SHARE * len(values)
    beat = rare and period([numbers[index] for index in places]) is not None
    if not beat or 2 * sum(values[index] for index in places) < sum(values):
        return slice(0, len(values))
    return slice(places[0], places[-1])


def waited_for(sides: Ranks, late: Rank) -> float | None:
    """Of all the time that ranks wait for the last one, step by step, the share that is for this one, 0 to 1.

    None where it is not known of the same steps of all.
    """
    return kept(sides, f"waited for {late.rank}", lambda sides: _waited_for(sides, late))


def _waited_for(sides: Ranks, late: Rank) -> float | None:
    whole = mine = 0.0
    for n in common(sides):
        waits = sorted(side.waits[n] for side in sides)
        lateness = (waits[1] if len(waits) == 2 else waits[len(waits) // 2]) - waits[0]
        whole += lateness
        mine += lateness if late.waits[n] == waits[0] else 0.0
    return mine / whole if whole else None


T = TypeVar("T")


def kept(sides: Ranks, name: str, read: Callable[[Ranks], T]) -> T:
    """What is read of all ranks together, read once for all windows that show them."""
    if name not in sides.seen:
        sides.seen[name] = read(sides)
    found: T = sides.seen[name]
    return found


def common(sides: Ranks) -> list[int]:
    """Steps whose exchange is known of all ranks, in order; none where they are too few."""
    return kept(sides, "common", _common)


def _common(sides: Ranks) -> list[int]:
    found = sorted(set.intersection(*(set(side.waits) for side in sides))) if sides else []
    return found if len(found) >= LEAST else []


def least_wait(sides: Ranks) -> float | None:
    """Mean time, ms, in the region of the exchange of whichever rank waits least in a step: what all wait for besides
    is one another. None where it is not known of the same steps of all."""
    return kept(sides, "least wait", _least_wait)


def _least_wait(sides: Ranks) -> float | None:
    numbers = common(sides)
    if not numbers:
        return None
    columns = ([side.waits[n] for n in numbers] for side in sides)
    shortest: list[float] = list(map(min, zip(*columns, strict=True)))
    return sum(shortest) / len(numbers)


@once
def waited_pct(facts: Facts) -> float:
    """Percent of the step that this rank's device waits in the exchange for whichever rank is last, on average.

    It is 0 where that is not known.
    """
    if facts.last:
        return 0.0
    sides = ranks(facts)
    mine = next((side for side in sides if side.rank == facts.window.run.rank), None)
    least = least_wait(sides)
    if mine is None or mine.exchange is None or least is None or not mine.step_ms:
        return 0.0
    return max(0.0, min(100.0, 100 * (mine.exchange - least) / mine.step_ms))
