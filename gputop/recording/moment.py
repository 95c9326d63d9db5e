"""A moment of a recording, gathered from its tables: exact records for the window, sums for all that came before."""

from __future__ import annotations

import sqlite3
from bisect import bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from gputop.recording.past import WORKER, WORKER_NS, Cell, GpuPast, HostPast, Past, RunPast, Tier
from gputop.recording.schema import PHASES, SUMS
from gputop.recording.tiering import MINUTE, totals_of
from gputop.records import (
    Alive,
    AnyRecord,
    Event,
    Gpu,
    Host,
    Loader,
    Model,
    Profile,
    Record,
    Run,
    Sampler,
    Site,
    Step,
    Verdict,
    end_of,
)

if TYPE_CHECKING:
    from gputop.recording.reader import Recording

S = 1_000_000_000

FURTHER_NS = 120 * S
MIN_STEPS = 20
"""A run with fewer than MIN_STEPS exact steps gets those further back, to FURTHER_NS."""

_OF_WORKER = msgspec.msgpack.encode({"phase": WORKER})[1:]
"""How a line of a loader worker looks among a record's packed fields: what rows are searched for before any is read."""

BACK = 5_000
"""Records looked back over for which loaders train."""


def at(recording: Recording, db: sqlite3.Connection, t_ns: int, *, column_ns: int, columns: int, exact_ns: int) -> Past:
    """Everything that a viewer at `t_ns` needs to draw and to judge. Raises sqlite3.Error."""
    begin = first_ns(db)
    if begin is None:
        return Past(t_ns=t_ns, from_ns=t_ns, column_ns=column_ns, records=())
    first, last = _chunks(recording, db, t_ns - exact_ns, t_ns)
    first_seq, last_seq = _numbers(db, first, last)
    exact: list[tuple[int, AnyRecord]] = []
    future: list[int] = []
    for seq, record in recording.numbered(after_seq=first_seq - 1, upto_seq=last_seq):
        if end_of(record) > t_ns:
            future.append(seq)
        elif not isinstance(record, Verdict):
            exact.append((seq, record))
    from_chunk = dict.fromkeys(_runs(db), first)
    exact = _further(recording, db, exact, from_chunk, t_ns, first)
    past = Past(
        t_ns=t_ns,
        from_ns=begin,
        column_ns=column_ns,
        records=(*_described(recording, db, first_seq, t_ns), *(record for _, record in exact)),
        seq=min(future, default=last_seq + 1) - 1,
        upto_seq=last_seq,
    )
    history_ns = max(begin, t_ns - columns * column_ns)
    since = _since(db, history_ns) or (first, first_seq)
    reach = (since[1], first_seq)
    return msgspec.structs.replace(
        past,
        runs=_run_pasts(recording, db, from_chunk, (since[0], first_seq), past),
        gpus=_gpu_pasts(db, reach, column_ns),
        hosts=_host_pasts(db, reach, column_ns),
    )


def first_ns(db: sqlite3.Connection) -> int | None:
    """When a recording begins: the first chunks may hold backlogs, which come unordered."""
    first: int | None = db.execute("SELECT min(from_ns) FROM (SELECT from_ns FROM chunk LIMIT 500)").fetchone()[0]
    return first


def _since(db: sqlite3.Connection, from_ns: int) -> tuple[int, int] | None:
    """The first chunk that tells of a time or later, and the number of its first record."""
    row: tuple[int, int] | None = db.execute(
        "SELECT id, first_seq FROM chunk WHERE to_ns >= ? ORDER BY to_ns LIMIT 1", (from_ns,)
    ).fetchone()
    return row


def _chunks(recording: Recording, db: sqlite3.Connection, from_ns: int, to_ns: int) -> tuple[int, int]:
    """The first and last chunk with records of a stretch of time; those around an empty one when there is none."""
    found = recording.times.chunks(from_ns, to_ns)
    if found is None:
        before = db.execute("SELECT max(id) FROM chunk WHERE to_ns < ?", (from_ns,)).fetchone()[0] or 0
        return before + 1, before
    return found


def _numbers(db: sqlite3.Connection, first: int, last: int) -> tuple[int, int]:
    low = db.execute("SELECT first_seq FROM chunk WHERE id = ?", (first,)).fetchone()
    high = db.execute("SELECT last_seq FROM chunk WHERE id = ?", (last,)).fetchone()
    end = high[0] if high is not None else 0
    return (low[0], end) if low is not None else (end + 1, end)


def _runs(db: sqlite3.Connection) -> list[int]:
    return [run for (run,) in db.execute("SELECT run FROM run_key").fetchall()]


def _further(
    recording: Recording,
    db: sqlite3.Connection,
    exact: list[tuple[int, AnyRecord]],
    from_chunk: dict[int, int],
    t_ns: int,
    first: int,
) -> list[tuple[int, AnyRecord]]:
    """Steps further back of runs that have too few in the exact stretch; `from_chunk` moves back for them."""
    keys = {recording.run_id(run): run for run in from_chunk}
    counts = dict.fromkeys(keys, 0)
    for _, record in exact:
        if isinstance(record, Step) and record.run_id in counts:
            counts[record.run_id] += 1
    few = [run_id for run_id, count in counts.items() if count < MIN_STEPS]
    if not few or first <= 1:
        return exact
    earlier: list[tuple[int, AnyRecord]] = []
    for run_id in few:
        rows = db.execute(
            "SELECT chunk FROM second WHERE run = ? AND chunk < ? AND t >= ? ORDER BY chunk DESC, id DESC LIMIT ?",
            (keys[run_id], first, t_ns - FURTHER_NS, FURTHER_NS // S),
        ).fetchall()
        chunks: list[int] = []
        have = counts[run_id]
        for (chunk,) in rows:
            if have >= MIN_STEPS:
                break
            if chunk not in chunks:
                chunks.append(chunk)
                have += _steps_in(db, keys[run_id], chunk)
        if not chunks:
            continue
        from_chunk[keys[run_id]] = min(chunks)
        low, high = _numbers(db, min(chunks), first - 1)
        earlier += [
            pair
            for pair in recording.numbered(after_seq=low - 1, upto_seq=high, types=(Step,))
            if isinstance(pair[1], Step) and pair[1].run_id == run_id and end_of(pair[1]) <= t_ns
        ]
    return sorted([*earlier, *exact], key=lambda pair: pair[0]) if earlier else exact


def _steps_in(db: sqlite3.Connection, run: int, chunk: int) -> int:
    row = db.execute("SELECT sum(steps) FROM second WHERE run = ? AND chunk = ?", (run, chunk)).fetchone()
    return row[0] or 0


def _described(recording: Recording, db: sqlite3.Connection, first_seq: int, t_ns: int) -> list[AnyRecord]:
    """The latest word before the exact stretch on everything known: runs, loaders, models, signs of life, samplers."""
    since = _since(db, t_ns - FURTHER_NS)
    near = since[1] if since is not None else 0
    newest = "seq IN (SELECT max(seq) FROM {} WHERE seq < ? AND seq >= ? GROUP BY {})"
    asked: tuple[tuple[type[Record], str, int], ...] = (
        (Run, "seq < ? AND seq >= ?", 0),
        (Loader, newest.format("loader", "run, loader_id"), 0),
        (Model, newest.format("model", "run"), 0),
        (Profile, newest.format("profile", "run"), 0),
        (Sampler, newest.format("sampler", "host, backend"), 0),
        (Alive, newest.format("alive", "run"), near),
        (Gpu, newest.format("gpu", "gpu_uuid"), near),
        (Host, newest.format("host", "host"), near),
        (Event, "seq < ? AND seq >= ? AND kind IN ('exit', 'lost_process')", 0),
    )
    found = [record for cls, where, low in asked for _, record in recording.rows(cls, where, (first_seq, low))]
    return [*found, *_workers(recording, db, first_seq, t_ns)]


def _workers(recording: Recording, db: sqlite3.Connection, first_seq: int, t_ns: int) -> list[AnyRecord]:
    """Of each run the latest look into one of its loader workers, which is told for longer than the exact stretch."""
    since = _since(db, t_ns - WORKER_NS)
    where = "seq < ? AND seq >= ? AND t >= ? AND instr(more, ?)"
    latest: dict[str, Site] = {}
    for _, one in recording.rows(Site, where, (first_seq, since[1] if since else 0, t_ns - WORKER_NS, _OF_WORKER)):
        if isinstance(one, Site) and any(line.phase == WORKER for line in one.sites):
            latest[one.run_id] = one
    return list(latest.values())


def _run_pasts(
    recording: Recording, db: sqlite3.Connection, from_chunk: dict[int, int], begin: tuple[int, int], past: Past
) -> dict[str, RunPast]:
    """Each run's totals before its first exact chunk, its tiers within reach, and what was said of it.

    `begin` is the chunk at which the histories begin and the number at which the exact stretch does.
    """
    out = {}
    low, first_seq = begin
    changes = recording.changes()
    ended = {
        one.run_id: "ended" if one.kind == "exit" else "lost"
        for one in past.records
        if isinstance(one, Event) and one.kind in ("exit", "lost_process")
    }
    for run, chunk in from_chunk.items():
        run_id = recording.run_id(run)
        totals = totals_of(db, run, chunk)
        said = changes.get(run_id, [])
        upto = bisect_right(said, (past.t_ns, "\uffff"))
        if not totals.steps and not upto:
            continue
        out[run_id] = RunPast(
            first_t=first_step_ns(db, run) if totals.steps else None,
            train_steps=totals.steps,
            train_ns=totals.ns,
            samples=totals.samples,
            phases_ns=_phases(db, run, past.t_ns),
            tiers=tuple(_tiers(recording, db, run, (low, chunk), past.column_ns)),
            changes=tuple(said[:upto]),
            said=recording.said(run_id, past.t_ns) if upto else None,
            last_ns=last_step_ns(db, run, chunk),
            ended=ended.get(run_id),
            backward_loaders=_backward_loaders(db, run, first_seq),
        )
    return out


def first_step_ns(db: sqlite3.Connection, run: int) -> int | None:
    """When a run's first train step began: the earliest of its first rows, since a backlog may come unordered."""
    row = db.execute(
        "SELECT min(t) FROM (SELECT t FROM second WHERE run = ? ORDER BY chunk, id LIMIT 200)", (run,)
    ).fetchone()
    first: int | None = row[0]
    return first


def last_step_ns(db: sqlite3.Connection, run: int, before_chunk: int = 2**62) -> int | None:
    """When a run's last train step before a chunk ended."""
    row = db.execute(
        "SELECT max(t + width_ns) FROM (SELECT t, width_ns FROM second WHERE run = ? AND chunk < ? "
        "ORDER BY chunk DESC, id DESC LIMIT 200)",
        (run, before_chunk),
    ).fetchone()
    last: int | None = row[0]
    return last


def _backward_loaders(db: sqlite3.Connection, run: int, first_seq: int) -> tuple[int | None, ...]:
    """The loaders whose batches were followed by backward in the last records before a number."""
    rows = db.execute(
        "SELECT DISTINCT loader_id FROM step WHERE seq < ? AND seq >= ? AND run = ? AND had_backward",
        (first_seq, first_seq - BACK, run),
    ).fetchall()
    return tuple(row[0] for row in rows)


def _phases(db: sqlite3.Connection, run: int, t_ns: int) -> dict[str, int]:
    """A run's time by phase in the minutes before: those with columns."""
    sums = db.execute(
        f"SELECT {', '.join(f'sum({name})' for name in SUMS)} FROM minute WHERE run = ? AND t < ?",
        (run, t_ns - t_ns % MINUTE),
    ).fetchone()
    return {phase: ns for phase, ns in zip(PHASES, sums, strict=True) if ns}


def _tiers(
    recording: Recording, db: sqlite3.Connection, run: int, chunks: tuple[int, int], column_ns: int
) -> Iterator[Tier]:
    """A run's train steps between two chunks, summed by column."""
    sums = ", ".join(f"sum({name})" for name in SUMS)
    where = "run = ? AND chunk >= ? AND chunk < ?"
    yield from recording.tiers(
        f"SELECT run, min(t), {column_ns}, sum(steps), sum(dur_ns), min(min_ns), max(max_ns), sum(samples), {sums}, "
        f"NULL, NULL FROM second WHERE {where} AND more IS NULL GROUP BY t / {column_ns}",
        (run, *chunks),
    )
    yield from recording.tiers(
        f"SELECT run, t, width_ns, steps, dur_ns, min_ns, max_ns, samples, {', '.join(SUMS)}, more, NULL "
        f"FROM second WHERE {where} AND more IS NOT NULL ORDER BY t",
        (run, *chunks),
    )


def _gpu_pasts(db: sqlite3.Connection, seqs: tuple[int, int], column_ns: int) -> dict[str, GpuPast]:
    """The GPUs' histories from the samples between two numbers."""
    percent = "100.0 * mem_used_bytes / nullif(mem_total_bytes, 0)"
    return {
        uuid: GpuPast(util=util, peak=util, memory=memory)
        for uuid, (util, memory) in _cells(db, "gpu", "gpu_uuid", ("util_pct", percent), seqs, column_ns).items()
    }


def _host_pasts(db: sqlite3.Connection, seqs: tuple[int, int], column_ns: int) -> dict[str, HostPast]:
    """The machines' histories from the samples between two numbers."""
    return {
        host: HostPast(cpu=cpu, iowait=iowait)
        for host, (cpu, iowait) in _cells(db, "host", "host", ("cpu_pct", "iowait_pct"), seqs, column_ns).items()
    }


Cells = tuple[Cell, ...]


def _cells(
    db: sqlite3.Connection, table: str, key: str, values: tuple[str, str], seqs: tuple[int, int], column_ns: int
) -> dict[str, tuple[Cells, Cells]]:
    """The columns of two gauges between two numbers, by what is measured."""
    figures = ", ".join(f"count({value}), sum({value}), min({value}), max({value})" for value in values)
    out: dict[str, tuple[list[Cell], list[Cell]]] = {}
    rows = db.execute(
        f"SELECT {key}, t / {column_ns} AS c, {figures} FROM {table} WHERE seq >= ? AND seq < ? GROUP BY {key}, c", seqs
    )
    for name, column, *found in rows:
        pair = out.setdefault(name, ([], []))
        for cells, at in zip(pair, (0, 4), strict=True):
            if found[at]:
                cells.append((column, *found[at : at + 4]))
    return {name: (tuple(first), tuple(second)) for name, (first, second) in out.items()}
