"""How many steps are told in detail: all of them, unless that would cost the training more than one percent.

Of a loop of very short steps every k-th is told in detail, and of the others only how long they took. Decided on the
training thread from what the publisher measures of itself; no clock is read here.
"""

from __future__ import annotations

MOST_SHARE = 0.01
"""Share of the loop's time that telling its steps may take."""

ENOUGH_SHARE = 0.004
"""k is halved where that would still take less than this: far enough from MOST_SHARE that k does not go up and down."""

MOST_EVERY = 64
"""The largest k: some steps a second are told in detail at any speed."""

WINDOW = 256
"""Steps between two decisions, so that a single stall is little of their time ..."""

WINDOW_NS = 1_000_000_000
"""... but a loop that has slowed down is noticed after this long."""

MOST_ENTRY_NS = 5_000
"""The most that one measurement of an entry counts for: above it the machine was doing something else."""

SMOOTHED = 8
"""Measurements that a change takes to be believed, about."""


class Pace:
    """`every`: each how-many-eth step is told in detail, on average; 1 is all of them."""

    __slots__ = ("_dice", "_since", "_steps", "each_ns", "every", "note_ns", "read_ns")

    def __init__(self) -> None:
        self.every = 1
        self.note_ns = 0.0
        """What it takes to note one entry, as measured within the loop."""
        self.read_ns = 0.0
        """What the training thread itself takes to read one; 0 where another thread reads."""
        self.each_ns = 0.0
        """What a step told in detail takes, where that was measured as a whole; else it goes by its entries."""
        self._since = self._steps = 0
        self._dice = 1

    def noted(self, ns: int) -> None:
        """An entry took so long to note."""
        self.note_ns = _smoothed(self.note_ns, min(ns, MOST_ENTRY_NS))

    def has_read(self, entries: int, ns: int) -> None:
        """The training thread has read so many entries in so long; 0 of them: another thread reads."""
        self.read_ns = _smoothed(self.read_ns, min(ns / entries, MOST_ENTRY_NS)) if entries else 0.0

    def took(self, steps: int, ns: int) -> None:
        """So many steps told in detail took so long to tell, altogether."""
        if steps:
            self.each_ns = _smoothed(self.each_ns, ns / steps)

    def mark_ns(self, marks: int) -> int:
        """What a mark costs, its beginning and its end, in a step of so many marks."""
        return round(max(2 * self.note_ns, self.each_ns / marks if marks else 0))

    def observe(self, steps: int, now: int, entries: int) -> bool:
        """So many more steps were done by `now` (ns), a detailed one making so many entries. Whether k has changed."""
        if not self._since:
            self._since = now
            return False
        self._steps += steps
        passed = now - self._since
        if passed <= 0 or (self._steps < WINDOW and passed < WINDOW_NS):
            return False
        share = max(self.each_ns, (self.note_ns + self.read_ns) * entries) * self._steps / passed
        self._since, self._steps = now, 0
        before = self.every
        while self.every < MOST_EVERY and share / self.every > MOST_SHARE:
            self.every *= 2
        while self.every > 1 and share * 2 / self.every < ENOUGH_SHARE:
            self.every //= 2
        return self.every != before

    def pass_over(self) -> int:
        """How many steps to pass over before the next one in detail, k - 1 on average: irregular, so that nothing that
        comes every so many steps is always met or never."""
        self._dice = (self._dice * 1103515245 + 12345) & 0x7FFFFFFF  # a generator of its own
        return self._dice * (2 * self.every - 1) >> 31


def _smoothed(mean: float, value: float) -> float:
    return mean + (value - mean) / SMOOTHED if mean else value
