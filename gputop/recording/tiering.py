"""The tiers of a recording: train steps summed by the second and by the minute, so that a long run can be read quickly.

A row of `second` sums one run's steps of one chunk (a transaction, about a second), and carries the run's totals up to
and including it. A row of `minute` sums all of a minute, with a quantile sketch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from operator import itemgetter

import msgspec

from gputop.recording.packing import packed
from gputop.recording.schema import PHASES
from gputop.records import Fold, Step
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

    def merge(self, other: Sum) -> None:
        """Sum another one in."""
        self.t, self.to_ns = min(self.t, other.t), max(self.to_ns, other.to_ns)
        self.steps += other.steps
        self.dur_ns += other.dur_ns
        self.min_ns, self.max_ns = min(self.min_ns, other.min_ns), max(self.max_ns, other.max_ns)
        self.samples += other.samples
        for phase, ns in other.phases.items():
            self.phases[phase] = self.phases.get(phase, 0) + ns


def sum_steps(run: int, steps: Sequence[Step]) -> list[Sum]:
    """The sums of one run's train steps of a chunk: one, or where they span more than WIDE_NS one a second."""
    if len(steps) > 1 and max(step.t for step in steps) - min(step.t for step in steps) > WIDE_NS:
        seconds: dict[int, list[Step]] = {}
        for step in steps:
            seconds.setdefault(step.t // S, []).append(step)
        return [_sum(run, some) for some in seconds.values()]
    return [_sum(run, steps)]


def _sum(run: int, steps: Sequence[Step]) -> Sum:
    durations = [step.dur_ns for step in steps]
    samples = [step.samples for step in steps if step.samples]
    return Sum(
        run, min([step.t for step in steps]), max([step.t + step.dur_ns for step in steps]), len(steps), sum(durations),
        min(durations), max(durations), sum(samples), _phases_of([step.phases_ns for step in steps]),
    )  # fmt: skip


def _phases_of(maps: Sequence[dict[str, int]]) -> dict[str, int]:
    """Times by phase, summed. Steps of a loop mostly have the same phases in the same order: then column by column."""
    if len(set(map(tuple, maps))) == 1:
        columns = zip(*[given.values() for given in maps], strict=True)
        return dict(zip(maps[0], map(sum, columns), strict=True))
    phases: dict[str, int] = {}
    for given in maps:
        for phase, ns in given.items():
            phases[phase] = phases.get(phase, 0) + ns
    return phases


def by_minute(steps: Sequence[Step]) -> dict[int, list[int]]:
    """The steps' durations by the start of the minute that they began in."""
    minute = steps[0].t // MINUTE * MINUTE
    times = [step.t for step in steps]
    if minute <= min(times) and max(times) < minute + MINUTE:
        return {minute: [step.dur_ns for step in steps]}
    out: dict[int, list[int]] = {}
    for step in steps:
        out.setdefault(step.t // MINUTE * MINUTE, []).append(step.dur_ns)
    return out


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
        names, values = _row(one)
        rows.append(((*names, "chunk", *_ALL), (*values, chunk, now.steps, now.ns, now.samples)))
    for names, some in groupby(rows, key=itemgetter(0)):
        db.executemany(_inserting("INSERT INTO second", names), [values for _, values in some])


def write_minutes(db: sqlite3.Connection, sums: Iterable[Sum], sketches: Mapping[tuple[int, int], Sketch]) -> None:
    """Sum a chunk into the minutes, whose sketches are `sketches` by (run, minute's start)."""
    minutes: dict[tuple[int, int], Sum] = {}
    for one in sums:
        key = (one.run, one.t // MINUTE * MINUTE)
        if key not in minutes:
            minutes[key] = Sum(one.run, key[1], key[1] + MINUTE, 0, 0, one.min_ns, one.max_ns, 0, {})
        minutes[key].merge(one)
    for key, add in minutes.items():
        add.t, add.to_ns = key[1], key[1] + MINUTE
        row = db.execute("SELECT * FROM minute WHERE run = ? AND t = ?", key).fetchone()
        if row is not None:
            _, _, _, steps, dur, least, most, samples, *rest = row
            phases = {phase: ns for phase, ns in zip(PHASES, rest, strict=False) if ns}
            more = rest[len(PHASES)]
            phases |= msgspec.msgpack.decode(more, type=dict[str, int]) if more else {}
            add.merge(Sum(key[0], key[1], key[1] + MINUTE, steps, dur, least, most, samples, phases))
        sketch = sketches.get(key)
        held = pack_sketch(sketch) if sketch is not None else row[-1] if row is not None else None
        names, values = _row(add)
        if held is not None:
            names, values = (*names, "sketch"), (*values, held)
        db.execute(_inserting("INSERT OR REPLACE INTO minute", names), values)


def _row(one: Sum) -> tuple[tuple[str, ...], tuple[object, ...]]:
    """A sum's columns and values, without those that it lacks: binding None costs Python's sqlite3 ten times an int."""
    figures = (one.run, one.t, one.to_ns - one.t, one.steps, one.dur_ns, one.min_ns, one.max_ns, one.samples)
    names = _named(tuple(one.phases))
    values = [*figures, *one.phases.values()] if names is not None else [*figures]
    if names is None:
        known = {f"host_{phase}_ns": ns for phase, ns in one.phases.items() if phase in PHASES}
        names, values = (*_HEAD, *known), [*values, *known.values()]
        if own := {phase: ns for phase, ns in one.phases.items() if phase not in PHASES}:
            return (*names, "more"), (*[min(value, MOST) for value in values], packed(own))
    return names, tuple([min(value, MOST) for value in values])


@lru_cache(maxsize=64)
def _named(phases: tuple[str, ...]) -> tuple[str, ...] | None:
    """The columns of a sum of these phases; None where one of them has no column."""
    return (*_HEAD, *[f"host_{phase}_ns" for phase in phases]) if set(phases) <= set(PHASES) else None


@lru_cache(maxsize=64)
def _inserting(how: str, names: tuple[str, ...]) -> str:
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


def read_sketch(db: sqlite3.Connection, run: int, minute: int) -> Sketch:
    """The sketch that the file has of a minute."""
    row = db.execute("SELECT sketch FROM minute WHERE run = ? AND t = ?", (run, minute)).fetchone()
    return unpack_sketch(row[0] if row is not None else None)
