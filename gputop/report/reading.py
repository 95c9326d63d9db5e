"""A file of any kind, judged: record by record or, where it is too long for that, at evenly spaced moments."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from gputop.recording.errors import Unreadable
from gputop.recording.header import first_bytes, is_sqlite
from gputop.recording.reader import Recording
from gputop.report.judged import Judged, judge_trace
from gputop.report.sampled import judge_recording
from gputop.sources import trace
from gputop.sources.opening import open_recording

__all__ = ["Unreadable", "judge_file"]

SHORT_STEPS = 100_000
SHORT_RECORDS = 250_000
"""A recording with no more than this is judged record by record, as a trace is: some 20 s and 250 MB at most."""

LARGE_BYTES = 64 * 2**20
"""A trace in JSON Lines larger than this is read through a temporary recording: its records don't fit in memory."""


def judge_file(path: Path, progress: Callable[[float], None] | None = None) -> tuple[Judged, tuple[str, ...]]:
    """What a file holds under today's rules, and warnings of reading it. `progress` is told the share done (0-1).

    Raises Unreadable.
    """
    if not is_sqlite(first_bytes(path)) and path.stat().st_size <= LARGE_BYTES:
        try:
            records, warnings = trace.read(path)
        except trace.Unreadable as error:
            raise Unreadable(str(error)) from None
        return judge_trace(records, str(path), progress), tuple(warnings)
    recording = open_recording(path, progress)
    try:
        judged = _judge(recording, path, progress)
        return judged, _once(recording.warnings)
    finally:
        recording.close()


def _judge(recording: Recording, path: Path, progress: Callable[[float], None] | None) -> Judged:
    info = recording.info()
    if info.steps > SHORT_STEPS or info.records > SHORT_RECORDS:
        return judge_recording(recording, info, str(path), progress)
    return judge_trace(sorted(recording.records(), key=trace.in_order), str(path), progress)


def _once(warnings: list[str]) -> tuple[str, ...]:
    """Warnings; of those that differ in figures alone (each look counts anew), the first."""
    kept: dict[str, str] = {}
    for warning in warnings:
        kept.setdefault(re.sub(r"\d+", "#", warning), warning)
    return tuple(kept.values())
