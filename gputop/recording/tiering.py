"""The tiers of a recording: train steps summed by the second and by the minute, so that a long run can be read quickly.

A row of `second` sums one run's steps of one chunk (a transaction, about a second), and carries the run's totals up to
and including it. A row of `minute` sums all of a minute, with a quantile sketch.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping

import msgspec

from gputop.recording.schema import PHASES, SUMS
from gputop.records import Fold, Step
from gputop.tiers import Sketch

S = 1_000_000_000
MINUTE = 60 * S

WIDE_NS = 5 * S // 2
"""A chunk whose steps span more than this (a backlog) is summed second by second."""

_SUM_COLUMNS = ", ".join(f"sum({name})" for name in SUMS)
_HEAD = "run, t, width_ns, steps, dur_ns, min_ns, max_ns, samples"


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


def sum_chunk(
    db: sqlite3.Connection,
    first_seq: int,
    odd: Iterable[tuple[int, Step]],
    folds: Iterable[tuple[int, Fold]],
) -> list[Sum]:
    """The sums of the train steps from `first_seq` on, by run and second.

    `odd` are those of them with phases that have no column, `folds` steps that come summed.
    """
    low, high = db.execute("SELECT min(t), max(t) FROM step WHERE seq >= ? AND train", (first_seq,)).fetchone()
    by_second = low is not None and high - low > WIDE_NS
    sums: dict[tuple[int, int], Sum] = {}
    for run, t, to_ns, steps, dur, least, most, samples, *phases in db.execute(
        "SELECT run, min(t), max(t + dur_ns), count(*), sum(dur_ns), min(dur_ns), max(dur_ns), "
        f"coalesce(sum(samples), 0), {_SUM_COLUMNS} FROM step WHERE seq >= ? AND train GROUP BY run"
        + (", t / 1000000000" if by_second else ""),
        (first_seq,),
    ):
        named = {phase: ns for phase, ns in zip(PHASES, phases, strict=True) if ns}
        sums[run, t // S if by_second else 0] = Sum(run, t, to_ns, steps, dur, least, most, samples, named)
    for run, step in odd:
        mine = sums.get((run, step.t // S if by_second else 0))
        if mine is not None:
            for phase in step.phases_ns.keys() - set(PHASES):
                mine.phases[phase] = mine.phases.get(phase, 0) + step.phases_ns[phase]
    for run, fold in folds:
        one = Sum(
            run, fold.t, fold.t + S, fold.steps, fold.dur_ns, fold.min_ns or fold.dur_ns // fold.steps,
            fold.max_ns or 0, fold.samples or 0, dict(fold.phases_ns),
        )  # fmt: skip
        key = (run, fold.t // S if by_second else 0)
        if key in sums and (by_second or abs(sums[key].t - fold.t) < WIDE_NS):
            sums[key].merge(one)
        else:
            sums[run, fold.t] = one
    return sorted(sums.values(), key=lambda one: one.t)


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
    for one in sums:
        before = totals.get(one.run) or totals_of(db, one.run)
        now = Totals(before.steps + one.steps, before.ns + one.dur_ns, before.samples + one.samples)
        totals[one.run] = now
        db.execute(
            f"INSERT INTO second (chunk, {_HEAD}, {', '.join(SUMS)}, more, all_steps, all_ns, all_samples) "
            f"VALUES ({', '.join('?' * (13 + len(SUMS)))})",
            (chunk, *_figures(one), now.steps, now.ns, now.samples),
        )


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
        db.execute(
            f"INSERT OR REPLACE INTO minute VALUES ({', '.join('?' * (10 + len(SUMS)))})",
            (*_figures(add), pack_sketch(sketch) if sketch is not None else (row[-1] if row is not None else None)),
        )


def _figures(one: Sum) -> tuple[object, ...]:
    own = {phase: ns for phase, ns in one.phases.items() if phase not in PHASES}
    return (
        one.run, one.t, one.to_ns - one.t, one.steps, one.dur_ns, one.min_ns, one.max_ns, one.samples,
        *[one.phases.get(phase) for phase in PHASES], msgspec.msgpack.encode(own) if own else None,
    )  # fmt: skip


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
