"""Bounded histories: values summed into columns of equal width, and a mergeable quantile sketch."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

GAMMA = 1.02
"""Ratio of neighbouring sketch bins: quantiles are right within 1 % (relative error of DDSketch, VLDB 2019)."""

Cell = tuple[int, int, float, float, float]
"""A column of a history as plain numbers: (column, count, total, low, high)."""

_LOG_GAMMA = math.log(GAMMA)

LATE_COLUMNS = 64
"""How many columns back a late value is still placed; an older one counts for nothing but totals."""


class Sketch:
    """Counts of positive values in bins that widen with the value: any quantile within 1 %, in bounded memory."""

    __slots__ = ("bins", "count")

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = 0

    def add(self, value: float) -> None:
        """Count a value; those below 1 share the lowest bin."""
        bin_ = math.ceil(math.log(value) / _LOG_GAMMA) if value > 1 else 0
        self.bins[bin_] = self.bins.get(bin_, 0) + 1
        self.count += 1

    def add_all(self, values: Sequence[float]) -> None:
        """Count many values."""
        bins, log, ceil, log_gamma = self.bins, math.log, math.ceil, _LOG_GAMMA
        for value in values:
            bin_ = ceil(log(value) / log_gamma) if value > 1 else 0
            bins[bin_] = bins.get(bin_, 0) + 1
        self.count += len(values)

    def merge(self, other: Sketch) -> None:
        """Count all that another sketch counted."""
        for bin_, count in other.bins.items():
            self.bins[bin_] = self.bins.get(bin_, 0) + count
        self.count += other.count

    def quantile(self, q: float) -> float | None:
        """The value below which a share `q` (0-1) lies; None when nothing was counted."""
        if not self.count:
            return None
        rank = q * (self.count - 1)
        seen = 0
        for bin_ in sorted(self.bins):
            seen += self.bins[bin_]
            if seen > rank:
                return 2 * GAMMA**bin_ / (GAMMA + 1)
        return GAMMA ** max(self.bins)


class Bucket:
    """What fell into one column: how many, their sum and extremes, and sums by name."""

    __slots__ = ("column", "count", "high", "low", "parts", "total", "weight")

    def __init__(self, column: int) -> None:
        self.column = column
        self.count = 0
        self.total = 0.0
        self.low = math.inf
        self.high = -math.inf
        self.weight = 0
        self.parts: dict[str, float] | None = None

    def add(self, value: float, weight: int = 1, high: float | None = None, low: float | None = None) -> None:
        """Sum in `value`, which stands for `weight` of them with the extremes `high` and `low`."""
        self.count += weight
        self.total += value
        top = value if high is None else high
        bottom = value if low is None else low
        self.high = max(self.high, top)
        self.low = min(self.low, bottom)

    def add_parts(self, parts: Mapping[str, float]) -> None:
        """Sum in named parts."""
        mine = self.parts
        if mine is None:
            self.parts = dict(parts)
            return
        for name, value in parts.items():
            mine[name] = mine.get(name, 0) + value


class Columns:
    """A bounded row of buckets on the shared time axis: bucket `k` covers [k * width_ns, (k + 1) * width_ns)."""

    __slots__ = ("_row", "width_ns")

    def __init__(self, width_ns: int, limit: int) -> None:
        self.width_ns = width_ns
        self._row: deque[Bucket] = deque(maxlen=limit)

    def __len__(self) -> int:
        return len(self._row)

    def covers(self, t_ns: int) -> bool:
        """Whether the columns reach to a moment."""
        return bool(self._row) and t_ns // self.width_ns <= self._row[-1].column

    def at(self, t_ns: int) -> Bucket | None:
        """The bucket of a moment, made when it is new; None when the moment is too long past."""
        column = t_ns // self.width_ns
        row = self._row
        if not row or column > row[-1].column:
            bucket = Bucket(column)
            row.append(bucket)
            return bucket
        if row[-1].column == column:
            return row[-1]
        for back in range(2, min(len(row), LATE_COLUMNS) + 1):
            found = row[-back]
            if found.column == column:
                return found
            if found.column < column:
                return self._insert(len(row) - back + 1, column)
        return None

    def _insert(self, index: int, column: int) -> Bucket | None:
        if len(self._row) == self._row.maxlen:
            if index == 0:
                return None
            self._row.popleft()
            index -= 1
        bucket = Bucket(column)
        self._row.insert(index, bucket)
        return bucket

    def add(self, t_ns: int, value: float) -> None:
        """Sum a value into its column."""
        bucket = self.at(t_ns)
        if bucket is not None:
            bucket.add(value)

    def restore(self, cells: Iterable[Cell]) -> None:
        """Put in the columns of a history, oldest first, before anything else is."""
        row = self._row
        for column, count, total, low, high in cells:
            if count and (not row or column > row[-1].column):
                bucket = Bucket(column)
                bucket.count, bucket.total, bucket.low, bucket.high = count, total, low, high
                row.append(bucket)

    def cells(self, first: int, last: int) -> tuple[Cell, ...]:
        """The columns from `first` to `last` that counted something, oldest first."""
        return tuple((one.column, one.count, one.total, one.low, one.high) for one in self.held(first, last))

    def held(self, first: int, last: int) -> list[Bucket]:
        """The buckets from `first` to `last` that counted something, oldest first."""
        out: list[Bucket] = []
        for bucket in reversed(self._row):
            if bucket.column < first:
                break
            if bucket.column <= last and bucket.count:
                out.append(bucket)
        out.reverse()
        return out

    def buckets(self, first: int, last: int) -> list[Bucket | None]:
        """One entry a column from `first` to `last` inclusive; None where nothing was measured."""
        out: list[Bucket | None] = [None] * max(0, last - first + 1)
        for bucket in reversed(self._row):
            if bucket.column < first:
                break
            if bucket.column <= last:
                out[bucket.column - first] = bucket
        return out

    def all(self) -> list[Bucket]:
        """Every bucket held that counted something, oldest first."""
        return [bucket for bucket in self._row if bucket.count]

    def means(self, first: int, last: int) -> tuple[float | None, ...]:
        """The mean of each column."""
        return tuple(b.total / b.count if b is not None and b.count else None for b in self.buckets(first, last))

    def highs(self, first: int, last: int) -> tuple[float | None, ...]:
        """The maximum of each column."""
        return tuple(b.high if b is not None and b.count else None for b in self.buckets(first, last))


def percentile(values: Iterable[float], q: float) -> float | None:
    """The q-quantile (0-1) of values by linear interpolation; None when there are none."""
    ordered = sorted(values)
    if not ordered:
        return None
    place = q * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)
