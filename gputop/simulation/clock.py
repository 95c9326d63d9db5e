"""The two clocks a simulation runs under: real time for the demo, virtual time for traces."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

Tick = Callable[[int], None]


class Clock(Protocol):
    """A monotonic clock that can wait."""

    def now(self) -> int:
        """Monotonic nanoseconds."""

    def wait_until(self, t: int) -> None:
        """Return when `now()` is at least `t`; at once if it already is."""


class RealClock:
    """CLOCK_MONOTONIC and real sleeping; `on_tick(now)` is called about every `every_ns` of waiting."""

    def __init__(self, every_ns: int = 0, on_tick: Tick | None = None) -> None:
        self._every_ns = every_ns
        self._on_tick = on_tick
        self._next_tick = time.monotonic_ns()

    def now(self) -> int:
        """Monotonic nanoseconds, the same base as the publisher's."""
        return time.monotonic_ns()

    def wait_until(self, t: int) -> None:
        """Sleep until `t`, waking for ticks."""
        while (now := time.monotonic_ns()) < t:
            if self._on_tick is not None and now >= self._next_tick:
                self._next_tick = now + self._every_ns
                self._on_tick(now)
            else:
                wake = t if self._on_tick is None else min(t, self._next_tick)
                time.sleep((wake - now) / 1e9)


class VirtualClock:
    """Time that passes only by waiting; `on_tick(t)` is called each `every_ns` of it, with `now()` equal to `t`."""

    def __init__(self, start: int = 0, every_ns: int = 0, on_tick: Tick | None = None) -> None:
        self._now = start
        self._every_ns = every_ns
        self.on_tick = on_tick
        self._next_tick = start + every_ns

    def now(self) -> int:
        """Virtual nanoseconds."""
        return self._now

    def wait_until(self, t: int) -> None:
        """Move on to `t`, stopping at each tick on the way."""
        while self.on_tick is not None and self._next_tick <= t:
            self._now = max(self._now, self._next_tick)
            self._next_tick += self._every_ns
            self.on_tick(self._now)
        self._now = max(self._now, t)
