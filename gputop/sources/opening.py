"""Opening whatever holds a trace as a recording: a recording as it is, JSON Lines through a temporary one."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from gputop.recording.errors import Unreadable
from gputop.recording.header import first_bytes, is_sqlite
from gputop.recording.reader import Recording
from gputop.recording.timeindex import LATE_NS
from gputop.records import AnyRecord, end_of

if TYPE_CHECKING:
    from gputop.recording.writer import Writer
    from gputop.sources.trace import TraceReader

S = 1_000_000_000

Progress = Callable[[float], None]

TOLD_EVERY = 5_000
"""Records between two words of how far it has come."""

LOOKED_THROUGH_BYTES = 64 * 2**20
"""A trace that tells of no run is looked through for one as a whole where it is no larger: it must fit in memory."""

COMMITTED = 20_000
"""Records written at once at the most."""


def open_recording(path: Path, progress: Progress | None = None) -> Recording:
    """A file as a recording. `progress` is told the share done (0-1) where that takes a while.

    What could not be read is in its `warnings`. Raises Unreadable: a sentence saying what is wrong and what to do.
    """
    if is_sqlite(first_bytes(path)):
        return Recording(path)
    try:
        return _imported(path, progress)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise Unreadable(f"{path} can't be unpacked: {reason}; set TMPDIR to a folder with more room") from None


def _imported(path: Path, progress: Progress | None) -> Recording:
    """The records of a trace in a temporary recording, which goes with its reader."""
    from gputop.recording.writer import Writer
    from gputop.sources import trace

    reader = trace.TraceReader(path)
    writer = Writer(None, now_ns=0)
    ordered = _write(writer, _told(reader, path, progress))
    if not ordered or (not reader.runs and path.stat().st_size <= LOOKED_THROUGH_BYTES):
        writer.close(0)
        records, _ = trace.read(path)
        writer = Writer(None, now_ns=0)
        _write(writer, records)
    recording = writer.recording()
    recording.path = path
    recording.warnings += reader.warnings
    weakref.finalize(recording, writer.close, 0)
    return recording


def _told(reader: TraceReader, path: Path, progress: Progress | None) -> Iterator[AnyRecord]:
    size = max(1, path.stat().st_size)
    for count, record in enumerate(reader):
        if progress is not None and count % TOLD_EVERY == 0:
            progress(min(1.0, reader.position / size))
        yield record


def _write(writer: Writer, records: Iterable[AnyRecord]) -> bool:
    """Write records second by second, as they were recorded; False when they are in no order of time at all."""
    from gputop.recording.chunk import DESCRIBING

    latest = due = 0
    for record in records:
        end = end_of(record)
        if end > due or writer.pending() >= COMMITTED:
            if writer.pending():
                writer.commit(latest)
            due = max(due, end) + S
        if latest - end > LATE_NS and not isinstance(record, DESCRIBING):
            return False
        latest = max(latest, end)
        writer.add(record)
    writer.commit(latest)
    return True
