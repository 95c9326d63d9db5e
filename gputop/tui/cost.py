"""What the screen itself costs: processor time of its process, bytes to its terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

OVER_S = 5.0
"""Time over which the cost is a mean: long enough for the drawing to come and go, short enough to see a change."""


class Cost(NamedTuple):
    """Percent of one core, bytes a second to the terminal."""

    cpu_pct: float
    bytes_s: float


class Meter:
    """Counts bytes as they are written (`wrote`, from any thread) and tells the cost since some seconds (`read`)."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, used: Callable[[], float] = time.process_time
    ) -> None:
        self._clock, self._used = clock, used
        self._bytes = 0
        self._since = (clock(), used(), 0)
        self._cost: Cost | None = None

    def wrote(self, count: int) -> None:
        """So many bytes went to the terminal."""
        self._bytes += count

    def read(self) -> Cost | None:
        """The cost over the last OVER_S or so; None in the first of them."""
        began, used, count = self._since
        passed = self._clock() - began
        if passed >= OVER_S:
            now_used, now_count = self._used(), self._bytes
            self._cost = Cost(100 * (now_used - used) / passed, (now_count - count) / passed)
            self._since = (began + passed, now_used, now_count)
        return self._cost
