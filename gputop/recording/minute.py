"""The minutes of a recording that is being written: each run's last ones are held, so that none is read back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from operator import add

import msgspec

from gputop.recording.schema import PHASES
from gputop.recording.tiering import MINUTE, Sum, capped, layout_of, pack_sketch, unpack_sketch
from gputop.tiers import Sketch

HELD = 4
"""Minutes held for each run: a new one begins while the last steps of the one before still come."""

Key = tuple[int, int]
"""A run's number and when the minute began."""


class Minute(msgspec.Struct):
    """A row of `minute`: the sum of its steps, and their durations' sketch, None where they only came summed; whether
    the file has such a row."""

    sum: Sum
    sketch: Sketch | None = None
    there: bool = False

    def add(self, one: Sum) -> None:
        """Take in what also began in it."""
        mine = self.sum
        mine.steps += one.steps
        mine.dur_ns += one.dur_ns
        mine.min_ns = min(mine.min_ns, one.min_ns)
        mine.max_ns = max(mine.max_ns, one.max_ns)
        mine.samples += one.samples
        if mine.layout is one.layout:
            mine.times = list(map(add, mine.times, one.times))
        else:
            times = dict(zip(mine.layout.phases, mine.times, strict=True))
            for phase, ns in zip(one.layout.phases, one.times, strict=True):
                times[phase] = times.get(phase, 0) + ns
            mine.layout, mine.times = layout_of(tuple(times)), list(times.values())
        if one.durations:
            if self.sketch is None:
                self.sketch = Sketch()
            self.sketch.add_all(one.durations)

    def row(self) -> tuple[str, tuple[object, ...]]:
        """The statement that writes it, and its values."""
        layout, values = self.sum.layout, self.sum.layout.row(self.sum)
        if self.sketch is not None:
            values = (*values, pack_sketch(self.sketch))
        if self.there:
            return layout.update[self.sketch is not None], (*values[2:], *values[:2])
        return layout.minute[self.sketch is not None], values


class Minutes:
    """Sums steps into the file's minutes. What it holds is right only as long as all that it wrote is committed: else
    it is to `forget`, and reads the minutes back."""

    def __init__(self) -> None:
        self._held: dict[Key, Minute] = {}

    def forget(self) -> None:
        """Hold nothing: what was written last is not in the file."""
        self._held = {}

    def write(self, db: sqlite3.Connection, sums: Iterable[Sum], runs: int, *, fitted: bool = False) -> None:
        """Write the minutes that a chunk's sums fall into, in a file of so many runs. Raises sqlite3.Error, and
        OverflowError unless `fitted`."""
        touched: dict[Key, Minute] = {}
        held = self._held
        for one in sums:
            key = one.run, one.t // MINUTE * MINUTE
            minute = held.get(key)
            if minute is None:
                minute = held[key] = _read(db, key, one)
            minute.add(one)
            touched[key] = minute
        rows: dict[str, list[tuple[object, ...]]] = {}
        for minute in touched.values():
            statement, values = minute.row()
            rows.setdefault(statement, []).append(capped(values) if fitted else values)
            minute.there = True
        for statement, some in rows.items():
            db.executemany(statement, some)
        while len(held) > HELD * max(1, runs):
            del held[next(iter(held))]


def _read(db: sqlite3.Connection, key: Key, first: Sum) -> Minute:
    """A minute as the file has it, or a new one, which is to begin with `first`."""
    run, t = key
    row = db.execute("SELECT * FROM minute WHERE run = ? AND t = ?", key).fetchone()
    if row is None:
        nothing = [0] * len(first.times)
        return Minute(Sum(run, t, t + MINUTE, 0, 0, first.min_ns, first.max_ns, 0, first.layout, nothing))
    _, _, _, steps, dur, least, most, samples, *rest = row
    phases = {phase: ns for phase, ns in zip(PHASES, rest, strict=False) if ns}
    more, sketch = rest[len(PHASES)], None
    with suppress(msgspec.MsgspecError):  # damaged: what else stands in the row is kept
        phases |= msgspec.msgpack.decode(more, type=dict[str, int]) if more else {}
        sketch = unpack_sketch(rest[-1]) if rest[-1] is not None else None
    layout, times = layout_of(tuple(phases)), list(phases.values())
    return Minute(Sum(run, t, t + MINUTE, steps, dur, least, most, samples, layout, times), sketch, there=True)
