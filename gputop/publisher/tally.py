"""Steps of which only the time was noted, added up where they happen: a row of them is one note, not one each."""

from __future__ import annotations

import threading
from typing import NamedTuple

S = 1_000_000_000

LONGEST = 1 << 62


class Row(NamedTuple):
    """Steps that follow each other directly, each as long as it took to ask for the next batch. Monotonic ns."""

    steps: int
    first: int
    """When the first of them ended."""
    last: int
    """When the last of them did."""
    least: int = LONGEST
    """What the shortest and the longest took, where there are several."""
    most: int = 0
    own_ns: int = 0
    """What reading notes took meanwhile."""

    def ends(self) -> list[int]:
        """When each of them ended, as if all but the first had been equally long."""
        apart, rest = self.last - self.first, max(1, self.steps - 1)
        return [self.first + apart * n // rest for n in range(self.steps)]


class Tally:
    """The row that is open, of one second of the epoch at most.

    The training thread adds to it, in bytecodes without a call between them, so that no other thread ever finds half a
    step. The sending thread takes from it what a training thread that has long been in one step can't hand over.
    """

    __slots__ = ("first", "last", "least", "lock", "most", "offset_ns", "own_ns", "steps", "until")

    def __init__(self, offset_ns: int = 0) -> None:
        self.lock = threading.RLock()  # what the collector or a signal ends meanwhile may take it again
        self.offset_ns = offset_ns
        self.last = self.first = self.until = 0
        self.steps = self.most = self.own_ns = 0
        self.least = LONGEST

    def begin(self, start: int) -> None:
        """The first step of a row begins at `start`."""
        self.last = start
        self._empty()

    def take(self) -> Row | None:
        """The row so far, if there is any; the next step is the first of another. The lock is held."""
        steps, self.steps = self.steps, 0
        if not steps:
            return None
        row = Row(steps, self.first, self.last, self.least, self.most, self.own_ns)
        self._empty()
        return row

    def _empty(self) -> None:
        self.steps = self.most = self.own_ns = 0
        self.least = LONGEST
        self.until = self.last + S - (self.last + self.offset_ns) % S
