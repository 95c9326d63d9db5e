"""CSV as RFC 4180 has it: one record type, a row a record, units in the columns' names, absent values empty."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from datetime import datetime, timezone
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec

from gputop.recording.export.columns import columns
from gputop.recording.export.material import Material
from gputop.records import Record, Step

SUFFIX = ".csv"
TYPES: tuple[type[Record], ...] = (Step,)
TABLE = True
TO_STDOUT = True

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a text must not begin with: a spreadsheet would take it for a formula, and names, labels and command lines come
from outside (OWASP, CSV injection)."""

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")

_json = msgspec.json.Encoder()


def write(material: Material, types: tuple[type[Record], ...], out: BinaryIO) -> int:
    """Write the records of the one type in `types` to `out`; returns how many. Raises OSError as `out` does."""
    (cls,) = types
    table = columns(cls, material.read(types), material.runs)
    text = io.TextIOWrapper(out, encoding="utf-8", errors="replace", newline="")
    try:
        rows = csv.writer(text, lineterminator="\r\n")
        rows.writerow([_text(one) for one in ("t_ns", "time_utc", *(column.name for column in table[1:]))])
        reads = [_moment_of, *(column.read for column in table[1:])]
        cells = [(place, cell) for place, column in enumerate(table[1:], 2) if (cell := _cell(column.type)) is not None]
        count = 0
        for record in material.read(types):
            row = [record.t, *[read(record) for read in reads]]
            for place, cell in cells:
                if row[place] is not None:
                    row[place] = cell(row[place])
            rows.writerow(row)
            count += 1
        text.flush()
    finally:
        text.detach()
    return count


def _cell(kind: Any) -> Callable[[Any], str] | None:
    """How values of a type are written; None: as they are."""
    if kind is str:
        return _text
    if kind is bool:
        return lambda value: "true" if value else "false"
    if kind in (int, float):
        return None
    return lambda value: _text(value if isinstance(value, str) else _json.encode(value).decode())


@lru_cache(1024)
def _text(value: str) -> str:
    """A text that is no formula and holds no control characters but line breaks and tabs."""
    value = _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", value)
    return f"'{value}" if value.startswith(FORMULA) else value


def _moment_of(record: Record) -> str:
    """When, as ISO 8601 in UTC with microseconds; empty past the calendar's end."""
    t_ns = record.t
    try:
        moment = datetime.fromtimestamp(t_ns // 1_000_000_000, timezone.utc)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{t_ns % 1_000_000_000 // 1000:06d}Z"
