"""The tiers of a recording: train steps summed by the second and by the minute, so that a long run can be read quickly.

A row of `second` sums one run's steps of one chunk (a transaction, about a second), and carries the run's totals up to
and including it. A row of `minute` sums all of a minute, with a quantile sketch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import groupby
from operator import add, itemgetter

import msgspec

from gputop.recording.columns import Columns
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


class Sum(msgspec.Struct):
    """Train steps of a run that began within a second or so, summed."""

    run: int
    t: int
    to_ns: int
    steps: int
    dur_ns: int
    min_ns: int
    max_ns: int
    samples: int
    phases: dict[str, int]
    durations: Sequence[int] = ()
    """Of each step, where they are known one by one."""

    def plus(self, other: Sum) -> Sum:
        """Both together."""
        mine, others = self.phases, other.phases
        if tuple(mine) == tuple(others):
            phases = dict(zip(mine, map(add, mine.values(), others.values()), strict=True))
        else:
            phases = {**mine, **{phase: mine.get(phase, 0) + ns for phase, ns in others.items()}}
        return Sum(
            self.run, min(self.t, other.t), max(self.to_ns, other.to_ns), self.steps + other.steps,
            self.dur_ns + other.dur_ns, min(self.min_ns, other.min_ns), max(self.max_ns, other.max_ns),
            self.samples + other.samples, phases,
        )  # fmt: skip


def sum_steps(run: int, steps: Columns) -> list[Sum]:
    """The sums of one run's train steps of a chunk: one, or where they span more than WIDE_NS one a second."""
    if max(steps.t) - min(steps.t) <= WIDE_NS:
        return [_sum(run, steps)]
    seconds: dict[int, list[int]] = {}
    for place, t in enumerate(steps.t):
        seconds.setdefault(t // S, []).append(place)
    return [_sum(run, steps.some(some)) for some in seconds.values()]


def _sum(run: int, steps: Columns) -> Sum:
    return Sum(
        run, min(steps.t), steps.end_ns(), len(steps.t), sum(steps.dur_ns),
        min(steps.dur_ns), max(steps.dur_ns), sum(filter(None, steps.samples)), _phases_of(steps.phases_ns),
        steps.dur_ns,
    )  # fmt: skip


def _phases_of(maps: Sequence[dict[str, int]]) -> dict[str, int]:
    """Times by phase, summed. Steps of a loop mostly have the same phases in the same order: then column by column."""
    if len(set(map(tuple, maps))) == 1:
        columns = zip(*map(dict.values, maps), strict=True)
        return dict(zip(maps[0], map(sum, columns), strict=True))
    phases: dict[str, int] = {}
    for given in maps:
        for phase, ns in given.items():
            phases[phase] = phases.get(phase, 0) + ns
    return phases


def sum_of_fold(run: int, fold: Fold) -> Sum:
    """Steps that come summed."""
    return Sum(
        run, fold.t, fold.t + S, fold.steps, fold.dur_ns, fold.min_ns or fold.dur_ns // fold.steps, fold.max_ns or 0,
        fold.samples or 0, dict(fold.phases_ns),
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


def write_seconds(db: sqlite3.Connection, chunk: int, sums: Iterable[Sum], totals: dict[int, Totals]) -> None:
    """Add a chunk's sums to `second`; `totals` moves on."""
    rows = []
    for one in sums:
        before = totals.get(one.run) or totals_of(db, one.run)
        now = Totals(before.steps + one.steps, before.ns + one.dur_ns, before.samples + one.samples)
        totals[one.run] = now
        names, values = row_of(one)
        rows.append(((*names, "chunk", *_ALL), (*values, chunk, now.steps, min(now.ns, MOST), min(now.samples, MOST))))
    for names, some in groupby(rows, key=itemgetter(0)):
        db.executemany(inserting("INSERT INTO second", names), [values for _, values in some])


def row_of(one: Sum) -> tuple[tuple[str, ...], tuple[object, ...]]:
    """A sum's columns and values, without those that it lacks: binding None costs Python's sqlite3 ten times an int."""
    figures = (one.run, one.t, one.to_ns - one.t, one.steps, one.dur_ns, one.min_ns, one.max_ns, one.samples)
    names = _named(tuple(one.phases))
    if names is not None:
        return names, _held((*figures, *one.phases.values()))
    known = {f"host_{phase}_ns": ns for phase, ns in one.phases.items() if phase in PHASES}
    own = {phase: ns for phase, ns in one.phases.items() if phase not in PHASES}
    return (*_HEAD, *known, "more"), (*_held((*figures, *known.values())), packed(own))


def _held(figures: tuple[int, ...]) -> tuple[int, ...]:
    """Figures as SQLite can hold them."""
    return figures if max(figures) <= MOST else tuple([min(value, MOST) for value in figures])


@lru_cache(maxsize=64)
def _named(phases: tuple[str, ...]) -> tuple[str, ...] | None:
    """The columns of a sum of these phases; None where one of them has no column."""
    return (*_HEAD, *[f"host_{phase}_ns" for phase in phases]) if set(phases) <= set(PHASES) else None


@lru_cache(maxsize=64)
def inserting(how: str, names: tuple[str, ...]) -> str:
    """The statement that inserts a row of these columns."""
    return f"{how} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"


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
