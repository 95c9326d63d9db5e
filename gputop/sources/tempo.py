"""A clock for what is replayed: it runs at a chosen speed, stands still, and can be set."""

from __future__ import annotations

from collections.abc import Callable

S = 1_000_000_000

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0, 120.0)
"""Speeds to choose from, in seconds of the trace a second."""

MOST_NS = S
"""Time that may pass between two looks: after a longer sleep of this process the replay goes on where it was."""


class Tempo:
    """Where in the trace it should be by now (`goal_ns`), given a monotonic clock in nanoseconds."""

    def __init__(self, at_ns: int, speed: float, monotonic: Callable[[], int]) -> None:
        self.speed = speed
        self.playing = True
        self._goal = float(at_ns)
        self._monotonic = monotonic
        self._seen = monotonic()

    def goal_ns(self) -> int:
        """Where it should be by now."""
        now = self._monotonic()
        if self.playing:
            self._goal += min(MOST_NS, max(0, now - self._seen)) * self.speed
        self._seen = now
        return int(self._goal)

    def set(self, at_ns: int) -> None:
        """Go on from this moment."""
        self._goal, self._seen = float(at_ns), self._monotonic()

    def play(self, playing: bool) -> None:
        """Run, or stand still."""
        self.goal_ns()
        self.playing = playing

    def faster(self) -> None:
        """Take the next higher speed."""
        self.goal_ns()
        self.speed = next((speed for speed in SPEEDS if speed > self.speed), self.speed)

    def slower(self) -> None:
        """Take the next lower speed."""
        self.goal_ns()
        self.speed = next((speed for speed in reversed(SPEEDS) if speed < self.speed), self.speed)

    def seconds(self, span_ns: int) -> float:
        """How long a stretch of the trace takes."""
        return span_ns / self.speed / S
