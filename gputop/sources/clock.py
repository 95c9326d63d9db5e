"""The trace clock: one offset fixed for life over the monotonic clock, which all processes of one boot share."""

from __future__ import annotations

import time
from collections.abc import Callable

from gputop.wire.clocks import ClockWatch


class TraceClock:
    """Epoch nanoseconds that never jump. Call it for the time now."""

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._monotonic = monotonic
        self.offset_ns = wall() - monotonic()
        self._clocks = ClockWatch(self.offset_ns, wall=wall, monotonic=monotonic)

    def __call__(self) -> int:
        """Now, in epoch nanoseconds as of when this clock was made."""
        return self.offset_ns + self._monotonic()

    def moved(self) -> str | None:
        """What has happened to the clocks since this was last asked, in words; None where nothing has."""
        return self._clocks.look()
