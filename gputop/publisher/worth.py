"""Which parts of a step get a mark, where it has more parts than marks: learnt from the steps before.

A mark stands at a part's end; timing the part takes the mark at the end of the one before too. Every PERIOD steps all
parts are timed in turn, a row of them a step. Between, marks go to the parts that took longest, on device or host.
"""

from __future__ import annotations

PERIOD = 256
"""Steps after which the parts are timed in turn again."""

SETTLED = 4
"""Steps after the last turn until its device times are known."""

RARE = 16
"""Steps in a row with no more parts than marks after which all parts get one again."""

Key = tuple[str, int]
"""A part of a step: its name, and the how-manyeth of that name it is."""


class Row:
    """The parts of one step so far, and how many marks it has."""

    __slots__ = ("_names", "before", "launched", "marks", "parts")

    def __init__(self, before: int, launched: int | None) -> None:
        self.before = before
        self.launched = launched
        self.marks = 0
        self.parts: list[tuple[Key, int]] = []
        self._names: dict[str, int] = {}

    def add(self, name: str, now: int, launched: int | None) -> Key:
        """The part `name` ends at `now`."""
        nth = self._names.get(name, 0)
        self._names[name] = nth + 1
        key = name, nth
        self.parts.append((key, now - self.before))
        self.before = now
        self.launched = launched
        return key


class Worth:
    """What marks are given to, `most` a step."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._ns: dict[Key, int] = {}
        self._step = 0
        self._short = RARE
        self._ends: frozenset[Key] | None = None

    def marked(self, key: Key, row: Row) -> bool:
        """Whether the end of this part gets a mark."""
        return row.marks < self._most and (self._ends is None or key in self._ends)

    def timed(self, key: Key, ns: int) -> None:
        """A part took so long on the device."""
        if self._ends is not None:
            self._ns[key] = max(ns, self._ns.get(key, 0))

    def finish(self, row: Row) -> None:
        """A step is over: where do the next one's marks go?"""
        if len(row.parts) <= self._most:
            self._short += 1
            if self._short >= RARE:
                self._ends, self._step = None, 0
            return
        before, self._short = self._short, 0
        if before >= RARE:  # one such step is no rule yet: the first of a run still learns what gaps are
            return
        keys = [key for key, _ in row.parts]
        turns = -(-(len(keys) - 1) // (self._most - 1))
        if self._step == 0:
            self._ns = dict(row.parts)
        if self._step < turns:
            first = self._step * (self._most - 1)
            self._ends = frozenset(keys[first : first + self._most])
        elif self._step == turns + SETTLED:
            self._ends = self._choose(keys)
        self._step = (self._step + 1) % PERIOD

    def _choose(self, keys: list[Key]) -> frozenset[Key]:
        chosen: set[Key] = set()
        for at in sorted(range(len(keys)), key=lambda at: -self._ns.get(keys[at], 0)):
            both = chosen | set(keys[max(0, at - 1) : at + 1])
            if len(both) <= self._most:
                chosen = both
        return frozenset(chosen)
