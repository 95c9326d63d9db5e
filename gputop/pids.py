"""Which process a pid means: a number may be another process's tomorrow, so it counts together with when it started."""

from __future__ import annotations

from typing import NamedTuple


class Pid(NamedTuple):
    """A process: its number, and when it started in clock ticks since boot (None: not known)."""

    number: int
    start: int | None = None

    def agrees(self, other: Pid) -> bool:
        """Whether the two are one process, as far as is known: an unknown start is no objection."""
        return self.number == other.number and (self.start is None or other.start is None or self.start == other.start)
