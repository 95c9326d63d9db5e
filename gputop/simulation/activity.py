"""How busy something is over time: a device's queue, a worker's CPU, a disk. Spans may lie in the future."""

from __future__ import annotations

from collections import deque


class Activity:
    """Spans `(start, end, rate)` in time order that don't overlap, with exact integrals over any recent interval.

    `rate` is a share of one (busy time) or units a nanosecond. Spans that ended before `keep_ns` before the newest are
    folded into one total, so memory stays flat.
    """

    def __init__(self, keep_ns: int = 5_000_000_000) -> None:
        self._spans: deque[tuple[int, int, float]] = deque()
        self._keep_ns = keep_ns
        self._folded = 0.0

    def add(self, start: int, end: int, rate: float = 1.0) -> None:
        """Add a span after all earlier ones; one that continues the last at the same rate extends it."""
        spans = self._spans
        if end <= start:
            return
        if spans and spans[-1][1] == start and spans[-1][2] == rate:
            start = spans.pop()[0]
        spans.append((start, end, rate))
        while spans[0][1] < end - self._keep_ns:
            first, last, share = spans.popleft()
            self._folded += (last - first) * share

    def total(self, until: int) -> float:
        """The integral from the beginning up to `until` (which must be younger than `keep_ns`)."""
        return self._folded + sum(
            (min(end, until) - start) * rate for start, end, rate in tuple(self._spans) if start < until
        )

    def mean(self, start: int, end: int) -> float:
        """The mean rate from `start` to `end`."""
        spans = tuple(self._spans)
        area = sum((min(e, end) - max(s, start)) * rate for s, e, rate in spans if s < end and e > start)
        return area / (end - start) if end > start else 0.0

    def cells(self, first: int, count: int, width: int) -> list[float]:
        """Mean rates of `count` adjacent intervals of `width` ns from `first` on."""
        out = [0.0] * count
        for start, end, rate in tuple(self._spans):
            low, high = max(start, first), min(end, first + count * width)
            while low < high:
                index = (low - first) // width
                stop = min(high, first + (index + 1) * width)
                out[index] += (stop - low) * rate / width
                low = stop
        return out


class Unseen(Activity):
    """Of what nobody looks at: nothing is kept."""

    def add(self, start: int, end: int, rate: float = 1.0) -> None:
        """Nothing."""
