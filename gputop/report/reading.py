"""A file of any kind, judged: JSON Lines all at once, recordings all at once or, when long, at evenly spaced moments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from gputop.recording.errors import Unreadable
from gputop.recording.reader import Recording
from gputop.records import AnyRecord, Run
from gputop.report.judged import Judged, judge_trace
from gputop.report.sampled import judge_recording
from gputop.sources import trace

__all__ = ["Unreadable", "judge_file"]

SHORT_STEPS = 100_000
SHORT_RECORDS = 250_000
"""A recording with no more than this is judged record by record, as a trace is: some 20 s and 250 MB at most."""

MAGIC = b"SQLite format 3\0"


def judge_file(path: Path, progress: Callable[[float], None] | None = None) -> tuple[Judged, tuple[str, ...]]:
    """What a file holds under today's rules, and warnings of reading it. `progress` is told the share done (0-1).

    Raises Unreadable.
    """
    if not _is_sqlite(path):
        try:
            records, warnings = trace.read(path)
        except trace.Unreadable as error:
            raise Unreadable(str(error)) from None
        return judge_trace(records, str(path), progress), tuple(warnings)
    recording = Recording(path)
    try:
        info = recording.info()
        if info.steps <= SHORT_STEPS and info.records <= SHORT_RECORDS:
            records = sorted(recording.records(), key=_order)
            judged = judge_trace(records, str(path), progress)
        else:
            judged = judge_recording(recording, info, str(path), progress)
        return judged, tuple(recording.warnings)
    finally:
        recording.close()


def _order(record: AnyRecord) -> tuple[int, bool]:
    """Runs first among equals: whatever a run's records say, the run must be known before."""
    return record.t, not isinstance(record, Run)


def _is_sqlite(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False
