"""The recorder: a thread of its own that puts records into a file once a second and survives what disks do."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from gputop.recording import volume
from gputop.recording.destination import Destination, Limits, Sink, System
from gputop.recording.spool import Spool
from gputop.recording.state import RecordingState
from gputop.records import Record

PERIOD_S = 1.0
OPEN_S = 10.0
"""How long the constructor waits for a file to open before it says that the disk does not answer."""

SLOW_S = 5.0
"""A write that takes longer is told as a disk that doesn't answer."""


class Recorder:
    """Records to one path. `add` and `state` return at once whatever the disk does.

    A file that was recorded before is continued. What is already known of the runs when recording begins (their latest
    `run`, `loader` and `model` records) must be the first that is added.
    """

    def __init__(
        self,
        path: Path,
        *,
        cmdlines: bool = True,
        max_bytes: int | None = None,
        keep_ns: int | None = None,
        floor_bytes: int | None = None,
        clock: Callable[[], int] = time.time_ns,
        system: System | None = None,
        spool: Spool | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        period_s: float = PERIOD_S,
        open_s: float = OPEN_S,
    ) -> None:
        """Open the file. Raises Busy, Unreadable or OSError when it can't be recorded to.

        `max_bytes` ends the recording at this size, `keep_ns` forgets what is older, `floor_bytes` pauses it while less
        is free on the disk (None: 200 MB, or a twentieth of a small disk).
        """
        self.path = path = Path(os.path.abspath(path))
        self._limits = Limits(max_bytes, keep_ns, floor_bytes)
        self._system = system or System(open=lambda at, now_ns: open_writer(at, now_ns, cmdlines))
        self._spool = Spool() if spool is None else spool
        self._clock = clock
        self._monotonic = monotonic
        self._period_s = period_s
        self._since_ns = clock()
        self._destination: Destination | None = None
        self._error: Exception | None = None
        self._state = RecordingState(path=str(path), since_ns=self._since_ns)
        self._busy_since: float | None = None
        self._opened, self._started, self._stop, self._left = (threading.Event() for _ in range(4))
        self._thread = threading.Thread(target=self._run, name="gputop-recorder", daemon=True)
        self._thread.start()
        if not self._opened.wait(open_s):
            self._stop.set()
            self._started.set()
            raise OSError(errno.ETIMEDOUT, "the file system doesn't answer", str(path))
        if self._error is not None:
            raise self._error

    def start(self) -> Recorder:
        """Begin to write what is added."""
        self._started.set()
        return self

    def add(self, records: Sequence[Record]) -> None:
        """Take records in arrival order. Never blocks; what finds no room is counted and becomes a `gap` event."""
        if not self._stop.is_set() and self._state.state != "ended":
            self._spool.put(records)

    def state(self) -> RecordingState:
        """How it fares now."""
        state, since = self._state, self._busy_since
        if state.state != "ended" and since is not None and (spent := self._monotonic() - since) > SLOW_S:
            why = f"the disk has not answered for {spent:.0f} s; recording goes on when it does"
            return msgspec.structs.replace(state, state="waiting", why=why, dropped=self._spool.dropped)
        return msgspec.structs.replace(state, dropped=self._spool.dropped)

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is left and leave one plain file; with a disk that doesn't answer, leave after `timeout_s`."""
        self._stop.set()
        self._started.set()
        if not self._left.wait(timeout_s):
            why = "the disk didn't answer when the recording was ended; its last moments may be missing"
            self._state = msgspec.structs.replace(self.state(), state="ended", why=why, said=(*self._state.said, why))

    def _run(self) -> None:
        try:
            self._busy_since = self._monotonic()
            self._destination = Destination(self.path, self._spool, self._limits, self._system, self._clock())
            self._tell(self._destination)
        except Exception as error:
            self._error = error
            self._left.set()
            return
        finally:
            self._busy_since = None
            self._opened.set()
        self._started.wait()
        try:
            while not self._stop.wait(self._period_s) and not self._destination.ended:
                self._write(self._destination.turn)
            self._write(self._destination.close)
        except Exception as error:
            why = f"recording stopped by a fault of gputop: {type(error).__name__}: {error}"
            self._state = msgspec.structs.replace(self._state, state="ended", why=why, said=(*self._state.said, why))
        finally:
            self._left.set()

    def _write(self, act: Callable[[int], None]) -> None:
        assert self._destination is not None
        self._busy_since = self._monotonic()
        act(self._clock())
        self._busy_since = None
        self._tell(self._destination)

    def _tell(self, destination: Destination) -> None:
        self._state = RecordingState(
            path=str(destination.path),
            since_ns=self._since_ns,
            bytes=destination.bytes,
            steps=destination.steps,
            steps_here=destination.steps_here,
            dropped=self._spool.dropped,
            state="ended" if destination.ended else "recording" if destination.why is None else "waiting",
            why=destination.why,
            said=tuple(destination.said),
        )


def open_writer(path: Path, now_ns: int, cmdlines: bool) -> Sink:
    """A writer with the journal that the path's file system bears. Raises Busy, Unreadable, OSError."""
    from gputop.recording.writer import Journal, Writer

    journal: Journal = "delete" if volume.is_network(volume.file_system(path)) else "wal"
    return Writer(path, now_ns=now_ns, journal=journal, cmdlines=cmdlines)
