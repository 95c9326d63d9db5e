"""A file of any kind, judged: JSON Lines all at once, recordings all at once or, when long, at evenly spaced moments."""

from __future__ import annotations

from pathlib import Path

from gputop.report.judged import Judged, judge_trace
from gputop.sources.trace import Unreadable, read

__all__ = ["Unreadable", "judge_file"]


def judge_file(path: Path) -> tuple[Judged, tuple[str, ...]]:
    """What a file holds under today's rules, and warnings of reading it. Raises Unreadable."""
    records, warnings = read(path)
    return judge_trace(records, str(path)), tuple(warnings)
