"""Order statistics over short lists of figures, and how often something recurs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise


def mean(values: Sequence[float]) -> float | None:
    """Arithmetic mean; None for no values."""
    return sum(values) / len(values) if values else None


def quantile(values: Sequence[float], q: float) -> float | None:
    """The value at rank `q` (0 to 1) by linear interpolation; None for no values."""
    if not values:
        return None
    return ranked(sorted(values), q)


def ranked(ordered: Sequence[float], q: float) -> float:
    """As `quantile`, of a sequence that is sorted already and not empty."""
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def median(values: Sequence[float]) -> float | None:
    """The middle value; None for no values."""
    return quantile(values, 0.5)


def known(values: Sequence[float | None]) -> list[float]:
    """The values that are there."""
    return [value for value in values if value is not None]


PERIOD_SLACK = 0.25
"""Share by which gaps between recurrences may differ from their median and still be called a period."""


def period(places: Sequence[int]) -> int | None:
    """The usual distance between ascending places, when three quarters of the distances are near it; else None."""
    gaps = [later - earlier for earlier, later in pairwise(places)]
    usual = median(gaps)
    if usual is None or usual < 1:
        return None
    near = sum(abs(gap - usual) <= max(1.0, PERIOD_SLACK * usual) for gap in gaps)
    return round(usual) if near >= 0.75 * len(gaps) else None
