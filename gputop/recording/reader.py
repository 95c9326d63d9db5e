"""Reads a recording, also one that is being written: its records in order of arrival, its tiers, any moment of it."""

from __future__ import annotations

import os
import sqlite3
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from gputop.recording import moment
from gputop.recording.errors import Unreadable
from gputop.recording.header import refuse_foreign
from gputop.recording.past import RECORDED, Info, Past, RunSpan, Tier
from gputop.recording.schema import PHASES, SUMS, TABLES, Row, Table
from gputop.recording.sqlite import Connection
from gputop.recording.tiering import totals_of, unpack_sketch
from gputop.recording.timeindex import Chunk, TimeIndex
from gputop.recording.unfinished import is_unfinished, undo
from gputop.recording.writing import holds, read_claim
from gputop.records import SCHEMA, AnyRecord, Event, Record, Run, Verdict, supersede

FIRST_BATCH, BATCH = 500, 8_000
"""Numbers read at a time, at first and at most: what bounds the memory of reading a recording from end to end."""

_DAMAGE = (sqlite3.Error, UnicodeDecodeError)
"""What sqlite3 raises for a damaged file: also where what SQLite says of it is no text."""

_BAD = (msgspec.MsgspecError, ValueError, KeyError, TypeError, IndexError, RecursionError)


class Recording:
    """A recording, open for reading; used by one thread at a time. `warnings` fills as it is read.

    Raises Unreadable: missing, foreign, damaged, or of a newer schema.
    """

    def __init__(self, path: Path, *, connection: sqlite3.Connection | None = None) -> None:
        self.path = path
        self.warnings: list[str] = []
        self._owned = connection is None
        self._bad = 0
        self._texts: dict[int, str] = {}
        self._runs: dict[int, str] = {}
        self._said: dict[str, list[tuple[int, str, int]]] = {}
        self._said_seq = 0
        if connection is None:
            refuse_foreign(path)
        with self._as_unreadable():
            self._db = connection if connection is not None else _open(path, self.warnings)
            self.times = TimeIndex(self._db)
            try:
                self._check_schema()
                self._names = {table.name: self._columns(table) for table in TABLES.values()}
                self._readings = {table.name: table.reading(self._names[table.name]) for table in TABLES.values()}
            except BaseException:
                self.close()
                raise

    @contextmanager
    def _as_unreadable(self) -> Iterator[None]:
        """Say what SQLite says of a damaged file as Unreadable does."""
        try:
            yield
        except (*_DAMAGE, *_BAD) as error:  # a page of another table in its place: texts where figures should be
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> Unreadable:
        if "locked" in str(error) or "unable to open" in str(error):
            return Unreadable(f"{self.path} can't be opened now ({error}); is its folder readable?")
        what = error if isinstance(error, _DAMAGE) else "what lies in its pages doesn't fit together"
        return Unreadable(f"{self.path} is damaged ({what}); gputop recover {self.path} saves what can be saved")

    def _check_schema(self) -> None:
        if not self._db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            raise Unreadable(
                f"{self.path} holds no record: its recorder was ended as it began, or what it wrote is in "
                f"{self.path.name}-wal, which is not beside it"
            )
        meta = self.meta()
        schema = meta.get("schema")
        if not isinstance(schema, int):
            raise Unreadable(f"{self.path} is damaged (no schema); gputop recover {self.path} saves what can be saved")
        if schema > SCHEMA:
            raise Unreadable(
                f"{self.path} is of schema {schema}, this gputop reads up to {SCHEMA}; "
                "upgrade it: pip install -U gputop-live"
            )

    def meta(self) -> dict[str, Any]:
        """What the file says of itself, by key."""
        return dict(self._db.execute("SELECT key, value FROM meta").fetchall())

    def _columns(self, table: Table) -> tuple[str, ...]:
        """The columns of a table that both this version and the file know."""
        there = {row[1] for row in self._db.execute(f"PRAGMA table_info({table.name})")}
        return tuple(name for name in table.known if name in there)

    def info(self) -> Info:
        """What the recording holds now. Raises Unreadable."""
        with self._as_unreadable():
            info = self._info()
            msgspec.convert(msgspec.to_builtins(info), Info)  # a page of another table: texts where times should be
            return info

    def _info(self) -> Info:
        db = self._db
        meta = self.meta()
        from_ns = moment.first_ns(db)
        to_ns, first, last = db.execute("SELECT max(to_ns), min(first_seq), max(last_seq) FROM chunk").fetchone()
        runs = tuple(self._spans())
        claim = read_claim(db)
        hosts = {span.run.host for span in runs} | {row[0] for row in self._few("host", "host")}
        simulated = any(span.run.simulated for span in runs) or any(row[0] for row in self._few("simulated", "gpu"))
        return Info(
            from_ns=from_ns or 0, to_ns=to_ns or 0, runs=runs, steps=sum(span.steps for span in runs),
            records=last - first + 1 if last is not None else 0, simulated=simulated,
            being_written=claim is not None and holds(claim, _now_ns()),
            closed="closed_ns" in meta, schema=meta["schema"], gputop_version=meta.get("gputop_version"),
            hosts=tuple(sorted(host for host in hosts if host)), size_bytes=_size(self.path),
        )  # fmt: skip

    def _few(self, column: str, table: str) -> list[Row]:
        """A column of a table's first rows."""
        return self._db.execute(f"SELECT {column} FROM {table} LIMIT 100").fetchall()

    def _spans(self) -> Iterator[RunSpan]:
        runs: dict[str, Run] = {}
        for record in self.records(types=(Run,)):
            assert isinstance(record, Run)
            known = runs.get(record.run_id)
            runs[record.run_id] = record if known is None else supersede(known, record)
        ended: dict[str, str] = {}
        for event in self.events(("exit", "lost_process")):
            if event.run_id is not None and ended.get(event.run_id) != "ended":
                ended[event.run_id] = "ended" if event.kind == "exit" else "lost"
        meant = {event.run_id for event in self.events((RECORDED,))}
        keys = dict(self._db.execute("SELECT run_id, run FROM run_key").fetchall())
        for run_id, key in keys.items():
            if run_id not in runs and (first := moment.first_step_ns(self._db, key)) is not None:
                runs[run_id] = Run(t=first, run_id=run_id, pid=0, host="")
        for run_id, run in runs.items():
            key = keys.get(run_id, -1)
            first, last = moment.first_step_ns(self._db, key), moment.last_step_ns(self._db, key)
            yield RunSpan(
                run=run, first_ns=run.t if first is None else first, last_ns=run.t if last is None else last,
                steps=totals_of(self._db, key).steps, ended=ended.get(run_id), meant=run_id in meant,
            )  # fmt: skip

    def last_seq(self) -> int:
        """The number of the newest record. Raises Unreadable."""
        with self._as_unreadable():
            return self._db.execute("SELECT max(last_seq) FROM chunk").fetchone()[0] or 0

    def records(
        self,
        *,
        after_seq: int = 0,
        from_ns: int | None = None,
        to_ns: int | None = None,
        types: Sequence[type[Record]] | None = None,
    ) -> Iterator[AnyRecord]:
        """The records in order of arrival, of these types, with from_ns <= t <= to_ns. Raises Unreadable."""
        if from_ns is not None or to_ns is not None:
            first, upto = self._reach(from_ns, to_ns)
            after_seq = max(after_seq, first - 1)
        else:
            upto = None
        for _, record in self.numbered(after_seq=after_seq, upto_seq=upto, types=types):
            if (from_ns is None or record.t >= from_ns) and (to_ns is None or record.t <= to_ns):
                yield record

    def _reach(self, from_ns: int | None, to_ns: int | None) -> tuple[int, int]:
        """The numbers between which all records of a stretch of time lie."""
        with self._as_unreadable():
            found = self.times.numbers(0 if from_ns is None else from_ns, 2**63 - 1 if to_ns is None else to_ns)
        return found if found is not None else (1, 0)

    def chunks_of(self, t_ns: int) -> tuple[int, list[Chunk]]:
        """Where a moment's records may lie: the last number of the chunks that tell of it, and by themselves those that
        brought what was long past. Raises Unreadable."""
        with self._as_unreadable():
            return self.times.last_number(t_ns), self.times.wide()

    def numbered(
        self, *, after_seq: int = 0, upto_seq: int | None = None, types: Sequence[type[Record]] | None = None
    ) -> Iterator[tuple[int, AnyRecord]]:
        """The same with their numbers: after_seq < number <= upto_seq. Raises Unreadable."""
        tables = [TABLES[cls] for cls in (types if types is not None else TABLES) if cls in TABLES]
        upto = self.last_seq() if upto_seq is None else upto_seq
        with self._as_unreadable():
            after_seq = self._before_next(tables, after_seq)
            batch = FIRST_BATCH if len(tables) > 1 else max(BATCH, upto)
            while after_seq < upto:
                end = min(upto, after_seq + batch)
                yield from self._batch(tables, after_seq, end)
                after_seq, batch = self._before_next(tables, end), min(2 * batch, max(BATCH, batch))
        self._tell_bad()

    def _before_next(self, tables: Sequence[Table], after: int) -> int:
        """The number before that of the first record after `after`: a damaged file may tell of many that aren't."""
        nexts = [
            self._db.execute(f"SELECT min(seq) FROM {table.name} WHERE seq > ?", (after,)).fetchone()[0]
            for table in tables
            if self._names[table.name]
        ]
        return min((one for one in nexts if one is not None), default=2**63) - 1

    def _batch(self, tables: Sequence[Table], after: int, upto: int) -> Iterator[tuple[int, AnyRecord]]:
        if len(tables) == 1:
            yield from self._rows(tables[0], "seq > ? AND seq <= ?", (after, upto))
            return
        found = [pair for table in tables for pair in self._rows(table, "seq > ? AND seq <= ?", (after, upto))]
        found.sort(key=lambda pair: pair[0])
        yield from found

    def _rows(self, table: Table, where: str, values: Row) -> Iterator[tuple[int, AnyRecord]]:
        """The records of a table's rows, with their numbers; a row that makes no record is counted and left out."""
        names = self._names[table.name]
        if not names:
            return
        question = f"SELECT {', '.join(names)} FROM {table.name} WHERE {where} ORDER BY seq"
        read = self._readings[table.name].record
        runs, texts = _Lookup(self.run_id), _Lookup(self._text)
        cursor = self._db.execute(question, values)
        while rows := cursor.fetchmany(500):
            for row in rows:
                try:
                    yield row[0], read(row, runs, texts)
                except _BAD:
                    self._bad += 1

    def _tell_bad(self) -> None:
        if self._bad:
            self.warnings.append(f"{self._bad} rows of {self.path} could not be read and were left out")
            self._bad = 0

    def run_id(self, run: int) -> str:
        """The run_id of a run's number. Raises KeyError."""
        if run not in self._runs:
            self._runs = dict(self._db.execute("SELECT run, run_id FROM run_key").fetchall())
        return self._runs[run]

    def _text(self, number: int) -> str:
        if number not in self._texts:
            self._texts = dict(self._db.execute("SELECT id, value FROM text").fetchall())
        return self._texts[number]

    def verdicts(self) -> list[Verdict]:
        """The verdicts as they were said, in order."""
        return [record for record in self.records(types=(Verdict,)) if isinstance(record, Verdict)]

    def changes(self) -> dict[str, list[tuple[int, str]]]:
        """By run, the (t, cause) at which a recorded verdict began to hold. Raises Unreadable."""
        with self._as_unreadable():
            self._look_said()
        out: dict[str, list[tuple[int, str]]] = {}
        for run_id, said in self._said.items():
            mine = out[run_id] = [(said[0][0], said[0][1])]
            mine += [(t, cause) for (_, before, _), (t, cause, _) in pairwise(said) if cause != before]
        return out

    def said(self, run_id: str, t_ns: int) -> Verdict | None:
        """The recorded verdict of a run that was in force at a time. Raises Unreadable."""
        with self._as_unreadable():
            self._look_said()
            said = self._said.get(run_id, [])
            at = bisect_right(said, t_ns, key=lambda one: one[0])
            found = [record for _, record in self.rows(Verdict, "seq = ?", (said[at - 1][2],))] if at else []
        return found[0] if found and isinstance(found[0], Verdict) else None

    def _look_said(self) -> None:
        """Learn which verdicts were said since the last look."""
        question = "SELECT seq, t, run, cause FROM verdict WHERE seq > ? ORDER BY seq"
        for seq, t, run, cause in self._db.execute(question, (self._said_seq,)).fetchall():
            self._said_seq = seq
            with suppress(*_BAD):
                self._said.setdefault(self.run_id(run), []).append((t, cause, seq))

    def events(self, kinds: Sequence[str] | None = None) -> list[Event]:
        """The events, of these kinds, in order of arrival. Raises Unreadable."""
        table = TABLES[Event]
        where = f"kind IN ({', '.join('?' * len(kinds))})" if kinds is not None else "1"
        with self._as_unreadable():
            found = [record for _, record in self._rows(table, where, tuple(kinds or ()))]
        return [record for record in found if isinstance(record, Event)]

    def seconds(self, run_id: str, from_ns: int, to_ns: int) -> list[Tier]:
        """A run's train steps summed by the second or so, from_ns <= t <= to_ns, in order of arrival."""
        return self._tier_rows(
            "second", "run = ? AND t BETWEEN ? AND ? ORDER BY id", (self._key(run_id), from_ns, to_ns)
        )

    def minutes(self, run_id: str | None = None, from_ns: int | None = None, to_ns: int | None = None) -> list[Tier]:
        """Train steps summed by the minute, in time order, with their sketches; of one run or of all."""
        where, values = ["t BETWEEN ? AND ?"], [from_ns or 0, to_ns if to_ns is not None else 2**63 - 1]
        if run_id is not None:
            where.append("run = ?")
            values.append(self._key(run_id))
        return self._tier_rows("minute", " AND ".join(where) + " ORDER BY t, run", tuple(values))

    def _key(self, run_id: str) -> int:
        with self._as_unreadable():
            row = self._db.execute("SELECT run FROM run_key WHERE run_id = ?", (run_id,)).fetchone()
        return row[0] if row is not None else -1

    def _tier_rows(self, name: str, where: str, values: Row) -> list[Tier]:
        sketch = "sketch" if name == "minute" else "NULL"
        question = f"SELECT run, t, width_ns, steps, dur_ns, min_ns, max_ns, samples, {', '.join(SUMS)}, more, {sketch}"
        try:
            return list(self.tiers(f"{question} FROM {name} WHERE {where}", values, sketched=name == "minute"))
        except (sqlite3.Error, *_BAD) as error:
            raise self._damaged(error) from None

    def tiers(self, question: str, values: Row, *, sketched: bool = False) -> Iterator[Tier]:
        """The tiers that a query of a tier's columns gives. Raises sqlite3.Error."""
        for row in self._db.execute(question, values).fetchall():
            yield self._tier(row, sketched)

    def rows(self, cls: type[Record], where: str, values: Row) -> Iterator[tuple[int, AnyRecord]]:
        """The records of one type that a condition on their rows selects, with their numbers. Raises sqlite3.Error."""
        return self._rows(TABLES[cls], where, values)

    def _tier(self, row: Row, sketched: bool) -> Tier:
        run, t, width, steps, dur, least, most, samples, *rest = row
        phases = {phase: ns for phase, ns in zip(PHASES, rest, strict=False) if ns}
        if rest[-2]:
            phases |= msgspec.msgpack.decode(rest[-2], type=dict[str, int])
        return Tier(
            run_id=self.run_id(run), t=t, width_ns=width, steps=steps, dur_ns=dur, min_ns=least, max_ns=most,
            samples=samples, phases_ns=phases, sketch=unpack_sketch(rest[-1]) if sketched else None,
        )  # fmt: skip

    def at(
        self, t_ns: int, *, column_ns: int = 2_000_000_000, columns: int = 300, exact_ns: int = 12_000_000_000
    ) -> Past:
        """Everything that a viewer at `t_ns` needs. Raises Unreadable."""
        with self._as_unreadable():
            return moment.at(self, self._db, t_ns, column_ns=column_ns, columns=columns, exact_ns=exact_ns)

    def close(self) -> None:
        """Let go of the file."""
        if self._owned:
            self._db.close()


class _Lookup(dict[int, str]):
    """A map that asks for what it does not know yet."""

    def __init__(self, ask: Callable[[int], str]) -> None:
        super().__init__()
        self._ask = ask

    def __missing__(self, key: int) -> str:
        found = self[key] = self._ask(key)
        return found


def _open(path: Path, warnings: list[str]) -> sqlite3.Connection:
    """Open a file to read. Where nothing beside it can be written (read-only media), it is read as it lies."""
    name = path.resolve().as_uri()
    db = _connect(f"{name}?mode=ro")
    try:
        db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except _DAMAGE as error:
        db.close()
        if "unable to open" not in str(error) and "readonly" not in str(error):
            raise
        how = "mode=ro" if undo(path) else "mode=ro&immutable=1"
        if is_unfinished(path):
            warnings.append(
                f"{path} was being written when its recorder was killed, and can't be mended where it lies: "
                f"records may be missing or wrong; copy it with {path.name}-journal to where you may write"
            )
        db = _connect(f"{name}?{how}")
    return db


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(
        uri, uri=True, timeout=2.0, isolation_level=None, check_same_thread=False, factory=Connection
    )


def _now_ns() -> int:
    import time

    return time.time_ns()


def _size(path: Path) -> int:
    total = 0
    for name in (path, f"{path}-wal"):
        with suppress(OSError):
            total += os.stat(name).st_size
    return total
