"""JSON Lines: a record a line, in arrival order; reads back equal."""

from __future__ import annotations

from typing import BinaryIO

from gputop.codec import to_json
from gputop.recording.export.material import Material
from gputop.records import TYPES as ALL
from gputop.records import Record, Reply, Request

SUFFIX = ".jsonl"
TYPES: tuple[type[Record], ...] = tuple(cls for cls in ALL.values() if cls not in (Request, Reply))
TABLE = False
TO_STDOUT = True


def write(material: Material, types: tuple[type[Record], ...], out: BinaryIO) -> int:
    """Write the records of these types to `out`; returns how many. Raises OSError as `out` does."""
    count = 0
    for record in material.read(None if types == TYPES else types):
        out.write(to_json(record) + b"\n")
        count += 1
    return count
