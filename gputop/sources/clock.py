"""The trace clock: one offset fixed for life over the monotonic clock, which all processes of one boot share."""

from __future__ import annotations

import time
from collections.abc import Callable

STEP_NS = 500_000_000
"""A wall clock that moved by more than this against the monotonic one was set, not slewed."""


class TraceClock:
    """Epoch nanoseconds that never jump. Call it for the time now."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self.offset_ns = wall() - monotonic()
        self._seen_ns = self.offset_ns

    def __call__(self) -> int:
        """Now, in epoch nanoseconds as of when this clock was made."""
        return self.offset_ns + self._monotonic()

    def stepped_ns(self) -> int | None:
        """By how much the wall clock was set since this was last asked; None when it was not."""
        offset = self._wall() - self._monotonic()
        moved = offset - self._seen_ns
        self._seen_ns = offset
        return moved if abs(moved) > STEP_NS else None
