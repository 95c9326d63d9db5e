"""Disks that do what they are told: a fake of the writer and of what is asked of the system."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from gputop.recording.destination import S, System
from gputop.recording.naming import Identity
from gputop.records import AnyRecord, Event, Loader, Model, Record, Run, Step

T0 = 1_700_000_000 * S
GB = 10**9


class FakeSink:
    """Keeps what is committed; `failing` is raised by commits, `broken` by everything."""

    def __init__(self, disk: FakeDisk, path: Path) -> None:
        self.disk, self.path = disk, path
        self.steps = 0
        self.kept: list[Record] = []
        self.commits: list[int] = []
        self.forgotten: list[int] = []
        self.closed = 0
        self._pending: list[Record] = []

    def add(self, record: Record) -> None:
        self._pending.append(record)

    def commit(self, now_ns: int) -> None:
        if self.disk.failing is not None:
            raise self.disk.failing
        self.kept += self._pending
        self.commits.append(len(self._pending))
        self.steps += sum(isinstance(record, Step) for record in self._pending)
        self._pending = []

    def pending(self) -> int:
        return len(self._pending)

    def drop_pending(self) -> int:
        count, self._pending = len(self._pending), []
        return count

    def size_bytes(self) -> int:
        return 100 * len(self.kept)

    def forget_before(self, t_ns: int) -> None:
        self.forgotten.append(t_ns)

    def close(self, now_ns: int) -> None:
        self.closed += 1
        self.commit(now_ns)

    def labels(self) -> list[str]:
        """What the file's gaps say."""
        return [record.label or "" for record in self.kept if isinstance(record, Event) and record.kind == "gap"]

    def steps_kept(self) -> list[int]:
        """The numbers of the steps in the file, in order."""
        return [record.n for record in self.kept if isinstance(record, Step)]


class FakeDisk:
    """Paths that name files by number; `sinks` are the writers opened so far."""

    def __init__(self) -> None:
        self.names: dict[Path, Identity] = {}
        self.sinks: list[FakeSink] = []
        self.failing: OSError | None = None
        self.opening: Exception | None = None
        self.free, self.total = 100 * GB, 1000 * GB
        self.gone: OSError | None = None

    def system(self) -> System:
        return System(open=self.open, identity=self.identity, free=self.room, whereabouts=self.whereabouts)

    def open(self, path: Path, now_ns: int) -> FakeSink:
        if self.opening is not None:
            raise self.opening
        self.names.setdefault(path, (1, len(self.sinks)))
        self.sinks.append(FakeSink(self, path))
        return self.sinks[-1]

    def identity(self, path: Path) -> Identity | None:
        return self.names.get(path)

    def room(self, path: Path) -> tuple[int, int]:
        if self.gone is not None:
            raise self.gone
        return self.free, self.total

    def whereabouts(self, wanted: Identity) -> Path | None:
        return next((path for path, found in self.names.items() if found == wanted), None)


def full() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def run(run_id: str = "a") -> Run:
    return Run(t=T0, run_id=run_id, pid=1, host="box")


def describing(run_id: str = "a") -> list[AnyRecord]:
    return [run(run_id), Loader(t=T0, run_id=run_id, loader_id=1), Model(t=T0, run_id=run_id)]


def steps(count: int, first: int = 0, run_id: str = "a", every_ns: int = 10_000_000) -> list[AnyRecord]:
    """Steps, one after the other."""
    phases = {"data": every_ns // 10}
    return [
        Step(t=T0 + n * every_ns, run_id=run_id, n=n, dur_ns=every_ns, phases_ns=phases)
        for n in range(first, first + count)
    ]


def fill(folder: Path) -> None:
    """Leave no room on a disk, by a file called "filler"."""
    with open(folder / "filler", "wb", buffering=0) as filler, contextlib.suppress(OSError):
        while True:
            filler.write(bytes(4096))
