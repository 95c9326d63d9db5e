"""Writes a recording: records are buffered and go into the file in one transaction at each commit.

Killed at any moment it loses what was not committed, and nothing else: rows, time index and tiers change together.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from gputop.recording import tiering
from gputop.recording.chunk import DESCRIBING, Chunk, gather
from gputop.recording.errors import Unreadable
from gputop.recording.heard import Heard
from gputop.recording.kinds import Kinds
from gputop.recording.minute import Minutes
from gputop.recording.naming import JOURNALS
from gputop.recording.packing import Texts, fit
from gputop.recording.schema import APPLICATION_ID, OWN_TABLES, TABLES, Row, Shape
from gputop.recording.sqlite import Connection, as_disk_errors, disk_error
from gputop.recording.writing import beat, claim, forget, new_token, release
from gputop.records import SCHEMA, Gpu, Process, Record, Run, Step, implausible
from gputop.version import __version__

if TYPE_CHECKING:
    from gputop.recording.reader import Recording

SUFFIX = ".gputop"
"""What a recording's name ends with, by custom: it is recognised by what it holds."""

Journal = Literal["wal", "delete"]

BEAT_NS = 5_000_000_000
"""How often a recorder says in the file that it is still there."""


CHECKPOINT_PAGES = 4000
"""Pages in the write-ahead log at which SQLite moves them into the file: about a minute of eight ranks."""


class Writer:
    """A recording being written. One thread owns it.

    An existing recording that nobody writes is continued: what it holds already of a run is not written again. With
    `path` None it is a temporary one, which vanishes with the process. Raises Busy, Unreadable (the file exists and is
    something else) and OSError.
    """

    def __init__(
        self, path: Path | None, *, now_ns: int | None = None, journal: Journal = "wal", cmdlines: bool = True
    ) -> None:
        self.path = path
        self.steps = 0
        self._cmdlines = cmdlines
        self._pending: list[Record] = []
        self._waiting: list[Record] = []
        self._kinds: dict[str, Kinds] = {}
        self._totals: dict[int, tiering.Totals] = {}
        self._minutes = Minutes()
        self._thins = path is not None
        self._closed = False
        self._beat_ns = 0
        now_ns = time.time_ns() if now_ns is None else now_ns
        if path is not None:
            from gputop.recording.header import refuse_foreign

            refuse_foreign(path, to_write=True)
        made = path is not None and make_private(path)
        try:
            with as_disk_errors(path or ""):
                self._connect(journal, now_ns)
        except OSError as error:
            if made and error.errno != errno.EBUSY:
                discard(path or Path())
            raise
        self.seq = self._one("SELECT max(last_seq) FROM chunk") or 0
        self._chunk = self._one("SELECT max(id) FROM chunk") or 0
        self._runs: dict[str, int] = {run_id: run for run, run_id in self._db.execute("SELECT * FROM run_key")}
        self._heard = Heard(self._db, self._runs) if self._runs else None
        self._new_runs: list[tuple[int, str]] = []
        self._texts = Texts({value: number for number, value in self._db.execute("SELECT * FROM text")})

    def _connect(self, journal: Journal, now_ns: int) -> None:
        """Open the file. Raises sqlite3.Error and Busy."""
        name = str(self.path) if self.path is not None else ""
        self._db = sqlite3.connect(name, timeout=2.0, isolation_level=None, check_same_thread=False, factory=Connection)
        self._token = new_token()
        try:
            self._prepare(journal, now_ns)
        except BaseException:
            forget(self._token)
            self._db.close()
            raise

    def _prepare(self, journal: Journal, now_ns: int) -> None:
        """Make what a recording consists of in one transaction: a new file is empty, or a recording."""
        db = self._db
        if self.path is None:
            db.execute("PRAGMA synchronous = OFF")
            db.execute("PRAGMA journal_mode = OFF")
        else:
            db.execute("PRAGMA synchronous = NORMAL")
        self._make(now_ns)
        if self.path is not None:
            db.execute(f"PRAGMA journal_mode = {journal}")
            db.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
            db.execute("PRAGMA journal_size_limit = 0")

    def _make(self, now_ns: int) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            if self.path is not None and not self._one("PRAGMA application_id"):
                db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            for statement in OWN_TABLES:
                db.execute(statement)
            for table in TABLES.values():
                self._create(table.name, table.create(), table.columns)
            db.execute("INSERT OR IGNORE INTO meta VALUES ('schema', ?), ('created_ns', ?)", (SCHEMA, now_ns))
            db.execute("INSERT OR REPLACE INTO meta VALUES ('gputop_version', ?)", (__version__,))
            self._refuse_newer()
            claim(db, self._token, now_ns, str(self.path))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def _refuse_newer(self) -> None:
        schema = self._one("SELECT value FROM meta WHERE key = 'schema'")
        if isinstance(schema, int) and schema > SCHEMA:
            raise Unreadable(
                f"{self.path} is of schema {schema}, this gputop writes {SCHEMA}; choose another name, it is left as "
                "it is, or upgrade: pip install -U gputop-live"
            )

    def _create(self, name: str, statement: str, columns: dict[str, str]) -> None:
        """Make a table, or add what an older version's lacks."""
        self._db.execute(statement)
        there = {row[1] for row in self._db.execute(f"PRAGMA table_info({name})")}
        for column, kind in columns.items():
            if column not in there:
                self._db.execute(f"ALTER TABLE {name} ADD COLUMN {column} {kind}")

    def _one(self, question: str) -> Any:
        row = self._db.execute(question).fetchone()
        return row[0] if row is not None else None

    def add(self, record: Record) -> None:
        """Take in a record; it is written at the next commit. Requests, replies and implausible ones are not."""
        if type(record) is not Step:
            if type(record) not in TABLES or implausible(record) is not None:
                return
            record = record if self._cmdlines else without_cmdlines(record)
        self._waiting.append(record)

    def pending(self) -> int:
        """Records that wait for a commit."""
        return len(self._pending) + len(self._waiting)

    def drop_pending(self) -> int:
        """Give up the records that wait; returns how many they were."""
        dropped = self.pending()
        self._pending, self._waiting = [], []
        return dropped

    def commit(self, now_ns: int) -> None:
        """Write what waits, in one transaction. Raises OSError; what waits is kept, and the next commit tries again."""
        new = self._waiting
        if self._heard is not None:
            with as_disk_errors(self.path or ""):
                new = self._heard.new(new, self._kinds)
        self._pending += new
        self._waiting = []
        chunk = gather(self._pending, self._kinds, thins=self._thins)
        try:
            self._write(chunk, now_ns, fitted=False)
        except (OverflowError, UnicodeEncodeError, sqlite3.ProgrammingError, sqlite3.InterfaceError):
            with as_disk_errors(self.path or ""):
                self._write(chunk, now_ns, fitted=True)
        except sqlite3.Error as error:
            raise disk_error(error, self.path or "") from None
        self.steps += chunk.counted
        self._pending = []

    def _write(self, chunk: Chunk, now_ns: int, *, fitted: bool) -> None:
        db = self._db
        rows, seq = self._rows_of(chunk), self.seq + len(chunk)
        totals = dict(self._totals)
        db.execute("BEGIN IMMEDIATE")
        try:
            if self._new_runs:
                db.executemany("INSERT OR IGNORE INTO run_key VALUES (?, ?)", self._new_runs)
            if self._texts.new:
                db.executemany("INSERT OR IGNORE INTO text VALUES (?, ?)", self._texts.new)
            for shape, some in rows.items():
                db.executemany(shape.insert, [fit(row) for row in some] if fitted else some)
            if seq > self.seq:
                number = self._chunk + 1
                db.execute("INSERT INTO chunk VALUES (?, ?, ?, ?, ?)", (number, self.seq + 1, seq, *chunk.span(now_ns)))
                sums = self._sums(chunk)
                tiering.write_seconds(db, number, sums, totals, fitted=fitted)
                self._minutes.write(db, sums, len(self._runs), fitted=fitted)
            if now_ns - self._beat_ns > BEAT_NS or now_ns < self._beat_ns:
                beat(db, self._token, now_ns)
            db.execute("COMMIT")
        except BaseException:
            self._minutes.forget()
            if db.in_transaction:
                with suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
            raise
        self._chunk += seq > self.seq
        self.seq, self._totals = seq, totals
        self._new_runs, self._texts.new = [], []
        if now_ns - self._beat_ns > BEAT_NS or now_ns < self._beat_ns:
            self._beat_ns = now_ns

    def _rows_of(self, chunk: Chunk) -> dict[Shape, list[Row]]:
        """A chunk's rows by the statement that inserts them, those of a statement in order."""
        first = self.seq + 1
        rows: dict[Shape, list[Row]] = {}
        if chunk.steps:
            assert chunk.columns is not None
            numbers = [first + place for place in chunk.places]
            named = {run_id: self._run(run_id) for run_id in dict.fromkeys(chunk.columns.run_id)}
            runs = [named[run_id] for run_id in chunk.columns.run_id]
            rows = TABLES[Step].rows(numbers, runs, chunk.columns, self._texts, chunk.trains)
        for place, record in chunk.others:
            table = TABLES[type(record)]
            run_id = getattr(record, "run_id", None) if table.has_run else None
            run = self._run(run_id) if run_id is not None else None
            shape, row = table.row(first + place, run, record, self._texts)
            rows.setdefault(shape, []).append(row)
        return rows

    def _sums(self, chunk: Chunk) -> list[tiering.Sum]:
        """A chunk's train steps, summed by run and second, in time order."""
        sums = [tiering.sum_of_fold(self._run(fold.run_id), fold) for fold in chunk.folds]
        for run_id, steps in chunk.trained.items():
            sums += tiering.sum_steps(self._run(run_id), steps)
        return sorted(sums, key=lambda one: one.t)

    def _run(self, run_id: str) -> int:
        found = self._runs.get(run_id)
        if found is None:
            found = self._runs[run_id] = len(self._runs) + 1
            self._new_runs.append((found, run_id))
        return found

    def size_bytes(self) -> int:
        """The file's size together with its log's."""
        if self.path is None:
            return 0
        total = 0
        for name in (self.path, f"{self.path}-wal"):
            with suppress(OSError):
                total += os.stat(name).st_size
        return total

    def forget_before(self, t_ns: int) -> None:
        """Give up what is older than `t_ns`; its room in the file is used again. Raises OSError."""
        self._minutes.forget()
        with as_disk_errors(self.path or ""):
            row = self._db.execute(
                "SELECT id, first_seq FROM chunk WHERE id = (SELECT min(id) FROM chunk WHERE to_ns >= ?)", (t_ns,)
            ).fetchone()
            if row is None or row[0] <= 1 or row[0] == self._one("SELECT min(id) FROM chunk"):
                return
            self._forget(row[0], row[1], t_ns)

    def _forget(self, chunk: int, seq: int, t_ns: int) -> None:
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        try:
            for cls, table in TABLES.items():
                if cls not in DESCRIBING:
                    db.execute(f"DELETE FROM {table.name} WHERE seq < ?", (seq,))
            db.execute("DELETE FROM chunk WHERE id < ?", (chunk,))
            db.execute("DELETE FROM second WHERE chunk < ?", (chunk,))
            db.execute("DELETE FROM minute WHERE t < ?", (t_ns - tiering.MINUTE,))
            gone = "(SELECT run FROM run_key WHERE run NOT IN (SELECT DISTINCT run FROM second))"
            for name in ("loader", "model"):
                db.execute(f"DELETE FROM {name} WHERE seq < ? AND run IN {gone}", (seq,))
            db.execute(
                f"DELETE FROM run WHERE seq < ? AND run_id IN (SELECT run_id FROM run_key WHERE run IN {gone})", (seq,)
            )
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise

    def recording(self) -> Recording:
        """A reader of this temporary recording."""
        from gputop.recording.reader import Recording

        if self.path is not None:
            raise ValueError("a recording in a file is opened by its path")
        return Recording(Path(""), connection=self._db)

    def close(self, now_ns: int | None = None) -> None:
        """Write what waits and leave one plain file. Raises OSError; the file is let go of anyway."""
        if self._closed:
            return
        self._closed = True
        try:
            if self.pending():
                self.commit(time.time_ns() if now_ns is None else now_ns)
            with as_disk_errors(self.path or ""):
                release(self._db, time.time_ns() if now_ns is None else now_ns)
                if self.path is not None:
                    self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                    with suppress(sqlite3.Error):  # somebody reads it: the next one to close it tidies up
                        self._db.execute("PRAGMA journal_mode = DELETE")
        finally:
            forget(self._token)
            self._db.close()


def make_private(path: Path) -> bool:
    """Make a file that only its owner may read, since command lines and users stand in it, unless there is one; whether
    it was made. Raises OSError."""
    try:
        os.close(os.open(os.path.realpath(path), os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        return False
    return True


def discard(path: Path) -> None:
    """Take away a recording that was never to be, with what SQLite keeps beside it."""
    for suffix in ("", *JOURNALS):
        with suppress(OSError):
            os.unlink(f"{os.path.realpath(path)}{suffix}")


def without_cmdlines(record: Record) -> Record:
    """The record without command lines and user names."""
    replace = msgspec.structs.replace
    if isinstance(record, Process):
        return replace(record, cmdline=None, user=None)
    if isinstance(record, Run):
        return replace(record, argv=None, user=None)
    if isinstance(record, Gpu) and record.processes:
        return replace(record, processes=[replace(one, cmdline=None, user=None) for one in record.processes])
    return record
