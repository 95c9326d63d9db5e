"""Recordings for other tools: one file a format. Each streams records into a file and keeps none of them.

A format is a module with `SUFFIX` (of a file's name), `TYPES` (the record types written unless told otherwise), `TABLE`
(whether a file holds one record type only), `TO_STDOUT` (whether it may go into a pipe) and `write`.
"""

from __future__ import annotations

import importlib
from typing import BinaryIO, Protocol, cast

from gputop.recording.export.material import Material
from gputop.records import Record

FORMATS = ("jsonl", "csv", "parquet", "perfetto")
"""The formats; each lives in the module `to_NAME`."""


class Missing(Exception):  # noqa: N818
    """A format needs a package that is not installed: which, and the command that installs it, in a sentence."""


class Format(Protocol):
    """What a format's module holds."""

    SUFFIX: str
    TYPES: tuple[type[Record], ...]
    TABLE: bool
    TO_STDOUT: bool

    def write(self, material: Material, types: tuple[type[Record], ...], out: BinaryIO) -> int:
        """Write the records of these types to `out`; returns how many. Raises OSError as `out` does, and Missing."""


def load(name: str) -> Format:
    """The format of that name. Raises KeyError for an unknown one."""
    if name not in FORMATS:
        raise KeyError(name)
    return cast(Format, importlib.import_module(f"gputop.recording.export.to_{name}"))
