"""The minutes of a recording that is being written: each run's last ones are held, so that none is read back."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import groupby
from operator import itemgetter

import msgspec

from gputop.recording.schema import PHASES
from gputop.recording.tiering import MINUTE, Sum, inserting, pack_sketch, row_of, unpack_sketch
from gputop.tiers import Sketch

HELD = 4
"""Minutes held for each run: a new one begins while the last steps of the one before still come."""

Key = tuple[int, int]
"""A run's number and when the minute began."""


class Minute(msgspec.Struct):
    """A row of `minute`: the sum of its steps, and their durations' sketch, None where they only came summed."""

    sum: Sum
    sketch: Sketch | None = None

    def plus(self, one: Sum) -> Minute:
        """This minute with what also began in it."""
        whole = self.sum.plus(one)
        whole.t, whole.to_ns = self.sum.t, self.sum.t + MINUTE
        sketch = self.sketch
        if one.durations:
            sketch = sketch.copy() if sketch is not None else Sketch()
            sketch.add_all(one.durations)
        return Minute(whole, sketch)

    def row(self) -> tuple[tuple[str, ...], tuple[object, ...]]:
        """Its columns and values."""
        names, values = row_of(self.sum)
        return (names, values) if self.sketch is None else ((*names, "sketch"), (*values, pack_sketch(self.sketch)))


class Minutes:
    """Sums steps into the file's minutes. What `write` returns is to be `keep`-ed once it is committed."""

    def __init__(self) -> None:
        self._held: dict[Key, Minute] = {}

    def write(self, db: sqlite3.Connection, sums: Iterable[Sum]) -> dict[Key, Minute]:
        """Write the minutes that a chunk's sums fall into. Raises sqlite3.Error."""
        out: dict[Key, Minute] = {}
        for one in sums:
            key = one.run, one.t // MINUTE * MINUTE
            out[key] = (out.get(key) or self._held.get(key) or _read(db, key, one)).plus(one)
        rows = [minute.row() for minute in out.values()]
        for names, some in groupby(rows, key=itemgetter(0)):
            db.executemany(inserting("INSERT OR REPLACE INTO minute", names), [values for _, values in some])
        return out

    def keep(self, written: Mapping[Key, Minute], runs: int) -> None:
        """Remember minutes that are in the file now, which holds so many runs."""
        self._held.update(written)
        while len(self._held) > HELD * max(1, runs):
            del self._held[next(iter(self._held))]


def _read(db: sqlite3.Connection, key: Key, first: Sum) -> Minute:
    """A minute as the file has it, or a new one, which is to begin with `first`."""
    run, t = key
    row = db.execute("SELECT * FROM minute WHERE run = ? AND t = ?", key).fetchone()
    if row is None:
        return Minute(Sum(run, t, t + MINUTE, 0, 0, first.min_ns, first.max_ns, 0, {}))
    _, _, _, steps, dur, least, most, samples, *rest = row
    phases = {phase: ns for phase, ns in zip(PHASES, rest, strict=False) if ns}
    more, sketch = rest[len(PHASES)], None
    with suppress(msgspec.MsgspecError):  # damaged: what else stands in the row is kept
        phases |= msgspec.msgpack.decode(more, type=dict[str, int]) if more else {}
        sketch = unpack_sketch(rest[-1]) if rest[-1] is not None else None
    return Minute(Sum(run, t, t + MINUTE, steps, dur, least, most, samples, phases), sketch)
