"""The tiers of a recording: train steps summed by the second and by the minute, so that a long run can be read quickly.

A row of `second` sums one run's steps of one chunk (a transaction, about a second), and carries the run's totals up to
and including it. A row of `minute` sums all of a minute, with a quantile sketch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache

import msgspec

from gputop.recording.columns import Figures
from gputop.recording.packing import packed
from gputop.recording.schema import PHASES
from gputop.records import Fold
from gputop.tiers import Sketch

MOST = 2**63 - 1
"""What SQLite can hold: odd figures sum up to more."""

S = 1_000_000_000
MINUTE = 60 * S

WIDE_NS = 5 * S // 2
"""A chunk whose steps span more than this (a backlog) is summed second by second."""

_HEAD = ("run", "t", "width_ns", "steps", "dur_ns", "min_ns", "max_ns", "samples")


_ALL = ("all_steps", "all_ns", "all_samples")


class Layout:
    """How sums of steps of these phases, in this order, lie in a tier's row, and the statements that write one."""

    def __init__(self, phases: tuple[str, ...]) -> None:
        self.phases = phases
        self._own = [at for at, phase in enumerate(phases) if phase not in PHASES]
        self._known = [at for at, phase in enumerate(phases) if phase in PHASES]
        names = (*_HEAD, *[f"host_{phases[at]}_ns" for at in self._known], *(["more"] if self._own else []))
        self.second = inserting("second", (*names, "chunk", *_ALL))
        self.minute = inserting("minute", names), inserting("minute", (*names, "sketch"))
        self.update = updating("minute", names, 2), updating("minute", (*names, "sketch"), 2)

    def row(self, one: Sum) -> tuple[object, ...]:
        """A sum's values. Raises OverflowError where it is more than SQLite can hold."""
        times: Sequence[int] = one.times
        head = (one.run, one.t, one.to_ns - one.t, one.steps, one.dur_ns, one.min_ns, one.max_ns, one.samples)
        if not self._own:
            return *head, *times
        own = {self.phases[at]: times[at] for at in self._own}
        return *head, *[times[at] for at in self._known], packed(own)


@lru_cache(maxsize=256)
def layout_of(phases: tuple[str, ...]) -> Layout:
    """The layout of these phases."""
    return Layout(phases)


class Sum(msgspec.Struct):
    """Train steps of a run that began within a second or so, summed: `times` by the phases of `layout`."""

    run: int
    t: int
    to_ns: int
    steps: int
    dur_ns: int
    min_ns: int
    max_ns: int
    samples: int
    layout: Layout
    times: Sequence[int]
    durations: Sequence[int] = ()
    """Of each step, where they are known one by one."""


def sum_steps(run: int, steps: Figures) -> list[Sum]:
    """The sums of one run's train steps of a chunk: one, or where they span more than WIDE_NS one a second."""
    if max(steps.t) - min(steps.t) <= WIDE_NS:
        return [_sum(run, steps)]
    seconds: dict[int, list[int]] = {}
    for place, t in enumerate(steps.t):
        seconds.setdefault(t // S, []).append(place)
    return [_sum(run, steps.some(some)) for some in seconds.values()]


def _sum(run: int, steps: Figures) -> Sum:
    t, dur_ns, samples, phases = steps
    keys, times = phases.sums()
    return Sum(
        run, min(t), steps.end_ns(), len(t), sum(dur_ns), min(dur_ns), max(dur_ns), sum(filter(None, samples)),
        layout_of(keys), times, dur_ns,
    )  # fmt: skip


def sum_of_fold(run: int, fold: Fold) -> Sum:
    """Steps that come summed."""
    return Sum(
        run, fold.t, fold.t + S, fold.steps, fold.dur_ns, fold.min_ns or fold.dur_ns // fold.steps, fold.max_ns or 0,
        fold.samples or 0, layout_of(tuple(fold.phases_ns)), list(fold.phases_ns.values()),
    )  # fmt: skip


class Totals(msgspec.Struct, frozen=True):
    """All train steps of a run so far."""

    steps: int = 0
    ns: int = 0
    samples: int = 0


def totals_of(db: sqlite3.Connection, run: int, before_chunk: int | None = None) -> Totals:
    """A run's totals as the file has them, up to a chunk."""
    row = db.execute(
        "SELECT all_steps, all_ns, all_samples FROM second WHERE run = ?"
        + (" AND chunk < ?" if before_chunk is not None else "")
        + " ORDER BY chunk DESC, id DESC LIMIT 1",
        (run,) if before_chunk is None else (run, before_chunk),
    ).fetchone()
    return Totals(*row) if row is not None else Totals()


def write_seconds(
    db: sqlite3.Connection, chunk: int, sums: Iterable[Sum], totals: dict[int, Totals], *, fitted: bool = False
) -> None:
    """Add a chunk's sums to `second`; `totals` moves on. Raises OverflowError unless `fitted`."""
    rows: dict[str, list[tuple[object, ...]]] = {}
    for one in sums:
        before = totals.get(one.run) or totals_of(db, one.run)
        now = Totals(before.steps + one.steps, before.ns + one.dur_ns, before.samples + one.samples)
        totals[one.run] = now
        row = (*one.layout.row(one), chunk, now.steps, now.ns, now.samples)
        rows.setdefault(one.layout.second, []).append(capped(row) if fitted else row)
    for statement, some in rows.items():
        db.executemany(statement, some)


def capped(row: tuple[object, ...]) -> tuple[object, ...]:
    """A row whose figures are no more than SQLite can hold."""
    return tuple(min(value, MOST) if isinstance(value, int) else value for value in row)


def inserting(table: str, names: tuple[str, ...]) -> str:
    """The statement that inserts a row of these columns."""
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


def updating(table: str, names: tuple[str, ...], keys: int) -> str:
    """The statement that sets these columns of a row, but for the first `keys`, which name it and are bound last."""
    sets, where = (f"{name} = ?" for name in names[keys:]), (f"{name} = ?" for name in names[:keys])
    return f"UPDATE {table} SET {', '.join(sets)} WHERE {' AND '.join(where)}"


def pack_sketch(sketch: Sketch) -> bytes:
    """A sketch as msgpack: its bins, by number."""
    return msgspec.msgpack.encode(sketch.bins)


def unpack_sketch(data: bytes | None) -> Sketch:
    """The sketch in a minute's row; an empty one when there is none. Raises msgspec.MsgspecError."""
    sketch = Sketch()
    if data:
        sketch.bins = msgspec.msgpack.decode(data, type=dict[int, int])
        sketch.count = sum(sketch.bins.values())
    return sketch
