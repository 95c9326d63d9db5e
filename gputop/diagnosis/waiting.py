"""How ranks wait for each other in the exchange, step by step: whom for, and what it takes when nobody is late."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.ranks import LEAST, Rank, ranks


def waited_for(sides: Sequence[Rank], late: Rank) -> float | None:
    """Of all the time that ranks wait for the last one, step by step, the share that is for this one, 0 to 1.

    None where it is not known of the same steps of all.
    """
    common = _common(sides)
    if not common:
        return None
    whole = mine = 0.0
    for n in common:
        waits = sorted(side.waits[n] for side in sides)
        lateness = (waits[1] if len(waits) == 2 else waits[len(waits) // 2]) - waits[0]
        whole += lateness
        mine += lateness if late.waits[n] == waits[0] else 0.0
    return mine / whole if whole else None


def _common(sides: Sequence[Rank]) -> set[int]:
    """Steps whose exchange is known of all ranks; none where they are too few."""
    common = set.intersection(*(set(side.waits) for side in sides)) if sides else set()
    return common if len(common) >= LEAST else set()


def least_wait(sides: Sequence[Rank]) -> float | None:
    """Mean time, ms, in the region of the exchange of whichever rank waits least in a step: what all wait for besides
    is one another. None where it is not known of the same steps of all."""
    common = _common(sides)
    if not common:
        return None
    columns = ([side.waits[n] for n in common] for side in sides)
    shortest: list[float] = list(map(min, zip(*columns, strict=True)))
    return sum(shortest) / len(common)


@once
def waited_pct(facts: Facts) -> float:
    """Percent of the step that this rank's device waits in the exchange for whichever rank is last, on average.

    It is 0 where that is not known.
    """
    sides = ranks(facts)
    mine = next((side for side in sides if side.rank == facts.window.run.rank), None)
    least = least_wait(sides)
    if mine is None or mine.exchange is None or least is None or not mine.step_ms:
        return 0.0
    return max(0.0, min(100.0, 100 * (mine.exchange - least) / mine.step_ms))
