"""The path that is recorded to: written once a second, followed when its file is moved, given time when it can't be."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from gputop.figures import counted, size
from gputop.recording import volume
from gputop.recording.errors import Unreadable
from gputop.recording.naming import JOURNALS, Identity, identity, vacant, whereabouts
from gputop.recording.spool import Lost, Spool
from gputop.records import Event, Record

S = 1_000_000_000
RETRY_NS = 5 * S
FORGET_EVERY_NS = 60 * S

BITE = 20_000
"""Records in one transaction at most: a backlog is written in bites, each safe by itself."""

FLOOR_BYTES = 200_000_000
FLOOR_SHARE = 20
"""What must stay free where nothing else is asked for: 200 MB, or a twentieth of a small disk."""

REOPEN_AFTER = 3
"""Failures in a row after which a file is opened anew, except where the disk is merely full."""

MAX_SAID = 32
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file has reached the largest size allowed here",
    errno.EROFS: "the file system has become read-only",
    errno.EIO: "the disk reports an input/output error",
    errno.ENOENT: "its folder is gone",
    errno.ESTALE: "the network file system has lost the file",
    errno.ETIMEDOUT: "the file system doesn't answer",
}


class Sink(Protocol):
    """What is written to: `gputop.recording.writer.Writer`, or a fake."""

    steps: int

    def add(self, record: Record) -> None: ...
    def commit(self, now_ns: int) -> None: ...
    def pending(self) -> int: ...
    def drop_pending(self) -> int: ...
    def size_bytes(self) -> int: ...
    def forget_before(self, t_ns: int) -> None: ...
    def close(self, now_ns: int) -> None: ...


class Limits(msgspec.Struct, frozen=True):
    """`max_bytes`: ends at this size. `keep_ns`: forgets what is older. `floor_bytes`: pauses while less is free."""

    max_bytes: int | None = None
    keep_ns: int | None = None
    floor_bytes: int | None = None


class System(msgspec.Struct, frozen=True):
    """What is asked of the operating system."""

    open: Callable[[Path, int], Sink]
    identity: Callable[[Path], Identity | None] = identity
    free: Callable[[Path], tuple[int, int]] = volume.free_bytes
    whereabouts: Callable[[Identity], Path | None] = whereabouts


class Destination:
    """Takes from the spool, writes to the path. One thread owns it; only `__init__` raises."""

    def __init__(self, path: Path, spool: Spool, limits: Limits, system: System, now_ns: int) -> None:
        """Open the file. Raises Busy, Unreadable or OSError."""
        self.path = path
        self.ended = False
        self.why: str | None = None
        self.said: deque[str] = deque(maxlen=MAX_SAID)
        self._spool = spool
        self._limits = limits
        self._system = system
        self._sink: Sink | None = None
        self._identity: Identity | None = None
        self._unsaved: list[Record] = []
        self._steps_before = 0
        self._steps_elsewhere: int | None = None
        self._bytes = 0
        self._faults = 0
        self._retry_ns = 0
        self._forgot_ns = now_ns
        self._open(now_ns)

    @property
    def steps(self) -> int:
        """Steps handed to the path's files so far."""
        return self._steps_before + (self._sink.steps if self._sink is not None else 0)

    @property
    def steps_here(self) -> int | None:
        """Of these, the ones in the file that the path names now; None while it was never moved or deleted."""
        return None if self._steps_elsewhere is None else self.steps - self._steps_elsewhere

    @property
    def bytes(self) -> int:
        """The file's size when it was last written to, with its journal."""
        return self._bytes

    def turn(self, now_ns: int) -> None:
        """Write what waits, or say why not. To be called once a second."""
        if self.ended or 0 < self._retry_ns - now_ns <= RETRY_NS:
            return
        try:
            self._follow(now_ns)
            if self._has_room(now_ns):
                self._write(now_ns)
                self._recovered(now_ns)
                self._keep_within_limits(now_ns)
        except Unreadable as error:
            self._end(now_ns, str(error))
        except Exception as error:
            self._failed(now_ns, error)

    def close(self, now_ns: int) -> None:
        """Write what can be written, close the file, and give up the rest."""
        if not self.ended:
            self._retry_ns = 0
            self.turn(now_ns)
            self._end(now_ns, self.why)
        self._spool.give_up(self._spool.take(len(self._spool))[1])

    def _open(self, now_ns: int) -> None:
        sink = self._system.open(self.path, now_ns)
        self._sink, self._identity = sink, self._system.identity(self.path)
        for record in self._spool.known():
            sink.add(record)

    def _follow(self, now_ns: int) -> None:
        """See that the path still names the file that is open; if not, close that one and begin another."""
        if self._sink is None:
            self._open(now_ns)
            return
        found = self._system.identity(self.path)
        if found == self._identity or self._identity is None:
            return
        moved = self._system.whereabouts(self._identity)
        self._shut(now_ns)
        self._steps_elsewhere = self._steps_before
        if moved is not None:
            self._make_whole(moved, now_ns)
        if found is not None:
            self.path = vacant(self.path)
        else:
            for suffix in JOURNALS:
                with contextlib.suppress(OSError):
                    os.unlink(f"{self.path}{suffix}")
        what = f"was moved to {moved}" if moved is not None else "was deleted"
        self._say(now_ns, f"the recording {what}; it goes on in a new file, {self.path}")
        then = "an earlier part was moved away" if moved is not None else "an earlier part was deleted"
        self._spool.give_back([Event(t=now_ns, kind="gap", label=f"the recording goes on in this file: {then}")])
        self._open(now_ns)

    def _make_whole(self, moved: Path, now_ns: int) -> None:
        """SQLite finds a journal by its file's name: give it the new one, then end the moved file as any other."""
        with contextlib.suppress(Exception):
            for suffix in ("-wal", "-journal"):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(f"{self.path}{suffix}", f"{moved}{suffix}")
            self._system.open(moved, now_ns).close(now_ns)

    def _shut(self, now_ns: int) -> None:
        """Close the file; what it did not take goes back to the spool."""
        sink, self._sink = self._sink, None
        if sink is None:
            return
        unsaved, self._unsaved = self._unsaved, []
        with contextlib.suppress(Exception):
            if sink.drop_pending():
                self._spool.give_back(unsaved)
        self._steps_before += sink.steps
        with contextlib.suppress(Exception):
            sink.close(now_ns)
            self._bytes = sink.size_bytes()

    def _has_room(self, now_ns: int) -> bool:
        free, total = self._system.free(self.path.parent)
        floor = self._limits.floor_bytes
        floor = min(FLOOR_BYTES, total // FLOOR_SHARE) if floor is None else floor
        if free >= floor + (floor // 10 if self.why is not None else 0):
            return True
        self._wait(now_ns, f"less than {size(floor)} is free on the disk; recording goes on when there is room")
        return False

    def _write(self, now_ns: int) -> None:
        assert self._sink is not None
        sink, more = self._sink, True
        if sink.pending():
            self._commit(sink, now_ns)
        while more:
            lost, records = self._spool.take(BITE)
            more = len(records) == BITE
            if lost:
                records = [*self._spool.known(), *(_gap(one, self.why) for one in lost), *records]
            self._unsaved = records
            for record in records:
                sink.add(record)
            if records:
                self._commit(sink, now_ns)

    def _commit(self, sink: Sink, now_ns: int) -> None:
        sink.commit(now_ns)
        self._unsaved = []
        self._bytes = sink.size_bytes()

    def _keep_within_limits(self, now_ns: int) -> None:
        assert self._sink is not None
        if self._limits.keep_ns is not None and abs(now_ns - self._forgot_ns) >= FORGET_EVERY_NS:
            self._forgot_ns = now_ns
            self._sink.forget_before(now_ns - self._limits.keep_ns)
        if self._limits.max_bytes is not None and self._bytes >= self._limits.max_bytes:
            self._end(now_ns, f"the recording has reached its limit of {size(self._limits.max_bytes)} and was closed")

    def _failed(self, now_ns: int, error: Exception) -> None:
        self._wait(now_ns, f"can't write the recording: {reason(error)}; trying again every {RETRY_NS // S} s")
        self._faults += 1
        full = isinstance(error, OSError) and error.errno in FULL
        if self._faults >= REOPEN_AFTER and not full:
            self._shut(now_ns)

    def _wait(self, now_ns: int, why: str) -> None:
        self._retry_ns = now_ns + RETRY_NS
        if why != self.why:
            self._say(now_ns, why)
        self.why = why

    def _recovered(self, now_ns: int) -> None:
        self._faults = 0
        if self.why is not None:
            self.why = None
            self._say(now_ns, "recording again")

    def _end(self, now_ns: int, why: str | None) -> None:
        if self.ended:
            return
        if why is not None and why != self.why:
            self._say(now_ns, why)
        self._shut(now_ns)
        self.ended, self.why = True, why

    def _say(self, now_ns: int, text: str) -> None:
        self.said.append(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(now_ns / S))} {text}")


def reason(error: Exception) -> str:
    """What went wrong, in a few words."""
    if isinstance(error, OSError):
        return REASONS.get(error.errno or 0) or (error.strerror or str(error)).lower()
    return str(error) or type(error).__name__


def _gap(lost: Lost, why: str | None) -> Event:
    cause = why.partition(";")[0] if why is not None else "they came faster than they could be written"
    label = f"{counted(lost.count, 'record')} {'was' if lost.count == 1 else 'were'} not recorded: {cause}"
    return Event(t=lost.from_ns, kind="gap", run_id=lost.run_id, label=label, dur_ns=lost.to_ns - lost.from_ns)
