"""Reading a trace: JSON Lines, one record a line. A line that can't be read costs only itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gputop.codec import Undecodable, from_json
from gputop.recording.errors import Unreadable
from gputop.recording.header import MAGIC, first_bytes
from gputop.records import (
    SCHEMA,
    Alive,
    AnyRecord,
    Fold,
    Gpu,
    Loader,
    Model,
    Process,
    Run,
    Step,
    implausible,
)

__all__ = ["MAX_LINE_BYTES", "NAMED_FAULTS", "TraceReader", "Unreadable", "read"]

NAMED_FAULTS = 5
"""Bad lines named one by one in warnings; the rest are only counted."""

MAX_LINE_BYTES = 4 * 1024 * 1024
"""A longer line is no record: it is counted as bad rather than held in memory."""


_OF_A_RUN = (Step, Fold, Alive, Loader, Model)


class TraceReader:
    """The records of one file, in the file's order; `warnings` fills as it is read.

    Steps of a run that no `run` record has introduced are preceded by a minimal one, so that every trace can be judged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.warnings: list[str] = []
        self.bad = 0
        self.unknown = 0
        self.read = 0
        self.position = 0
        """Bytes read so far."""
        self._known: set[str] = set()

    @property
    def runs(self) -> int:
        """Runs met so far."""
        return len(self._known)

    def __iter__(self) -> Iterator[AnyRecord]:
        """The records. Raises Unreadable; a pipe or device, which may have no end, is not read."""
        first_bytes(self.path)
        try:
            with open(self.path, "rb") as file:
                yield from self._records(file)
        except OSError as error:
            reason = (error.strerror or "can't be read").lower()
            raise Unreadable(f"{self.path} can't be read: {reason}; check the name") from None
        self._finish()

    @staticmethod
    def made_up(record: AnyRecord) -> bool:
        """Whether a record stands for a run that the file tells nothing of."""
        return isinstance(record, Run) and record.pid == 0 and not record.host

    def _records(self, file: BinaryIO) -> Iterator[AnyRecord]:
        number = 0
        while line := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            self.position += len(line)
            if number == 1:
                self._refuse_foreign(line)
                line = line.removeprefix(b"\xef\xbb\xbf")
            if len(line) > MAX_LINE_BYTES:
                self._fault(number, f"longer than {MAX_LINE_BYTES} bytes")
                while line and not line.endswith(b"\n"):
                    line = file.readline(MAX_LINE_BYTES)
                    self.position += len(line)
                continue
            if not line.strip():
                continue
            try:
                record = from_json(line)
            except Undecodable as error:
                if error.unknown:
                    self.unknown += 1
                else:
                    self._fault(number, str(error))
                continue
            if (why := implausible(record)) is not None:
                self._fault(number, why)
                continue
            self.read += 1
            if isinstance(record, Run):
                self._check_schema(record)
                self._known.add(record.run_id)
            elif isinstance(record, _OF_A_RUN) and record.run_id not in self._known:
                self._known.add(record.run_id)
                yield Run(t=record.t, run_id=record.run_id, pid=0, host="")
            yield record

    def _refuse_foreign(self, line: bytes) -> None:
        if line.startswith(MAGIC):
            raise Unreadable(f"{self.path} is an SQLite file, not a trace in JSON Lines")
        if b"\0" in line[:4096]:
            raise Unreadable(
                f"{self.path} is not a trace: it holds binary data; gputop reads recordings (.gputop) and JSON Lines "
                "(.jsonl); of a recording whose beginning is lost, gputop recover saves what is left"
            )

    def _check_schema(self, run: Run) -> None:
        if run.schema > SCHEMA:
            raise Unreadable(
                f"{self.path} is of schema {run.schema}, this gputop reads up to {SCHEMA}; "
                "upgrade it: pip install -U gputop-live"
            )

    def _fault(self, number: int, why: str) -> None:
        self.bad += 1
        if self.bad <= NAMED_FAULTS:
            self.warnings.append(f"line {number} skipped: {why}")

    def _finish(self) -> None:
        if not self.read:
            if self.bad:
                lines = "its only line is no record" if self.bad == 1 else f"none of its {self.bad} lines is a record"
                raise Unreadable(f"{self.path} is not a trace: {lines}")
            raise Unreadable(f"{self.path} is empty: there is nothing to read in it")
        if self.bad > NAMED_FAULTS:
            self.warnings.append(f"{self.bad} lines in all could not be read and were skipped")
        if self.unknown:
            self.warnings.append(f"{self.unknown} records of types that this version does not know were ignored")


def read(path: Path) -> tuple[list[AnyRecord], list[str]]:
    """All records of a trace in time order, and warnings. Raises Unreadable."""
    reader = TraceReader(path)
    records = list(reader)
    records.sort(key=in_order)
    return [*_unannounced(records), *records], reader.warnings


def _unannounced(records: list[AnyRecord]) -> list[Run]:
    """The run of a trace of a GPU and a process alone, of which no record tells: the process that was looked at as a
    training is, with its main thread or its workers, else the only one that the driver listed more than once."""
    if any(isinstance(record, Run) for record in records):
        return []
    gpus = [record for record in records if isinstance(record, Gpu)]
    processes = [record for record in records if isinstance(record, Process)]
    found = [(one.pid, one.host) for one in processes if one.main_thread_cpu_pct is not None or one.workers]
    if gpus and not found:
        listed = Counter((one.pid, gpu.host) for gpu in gpus for one in gpu.processes or ())
        often = [who for who, count in listed.items() if count > 1]
        found = often if len(often) == 1 else []
    return [
        Run(t=records[0].t, run_id=f"unannounced-{pid}", pid=pid, host=host) for pid, host in found[: 1 if gpus else 0]
    ]


def in_order(record: AnyRecord) -> tuple[int, int]:
    """Runs first among equals: whatever a run's records say, the run must be known before."""
    return (record.t, 0 if isinstance(record, Run) else 1)
