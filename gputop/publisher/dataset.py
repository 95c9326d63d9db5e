"""On what kind of file system a data set lies: from the paths that it holds, of which few are asked for, once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

MAX_DEPTH = 4
"""Data sets within data sets (`Subset`, `ConcatDataset`) that are looked into."""

MAX_FIELDS = 50
MAX_ASKED = 6
"""Paths whose existence is asked for: on a network's file system each takes its time."""

WITHIN = ("dataset", "datasets", "_dataset")
MOUNTS = "/proc/self/mountinfo"


def file_system(dataset: Any, mounts: str = MOUNTS) -> str | None:
    """The type of the file system of its files as Linux names it, e.g. `ext4` or `nfs4`; None where that isn't seen."""
    path = path_of(dataset)
    return type_at(path, mounts) if path is not None else None


def path_of(dataset: Any) -> str | None:
    """The first of the data set's fields that names a file or folder which is there."""
    texts = islice(_paths(dataset, MAX_DEPTH), MAX_ASKED)
    return next((os.path.abspath(text) for text in texts if os.path.exists(text)), None)


def _paths(dataset: Any, depth: int) -> Iterator[str]:
    """Texts that look like paths among its own fields (no property is run), then in the data sets it is made of."""
    if type(dataset).__module__.startswith("datasets."):  # Hugging Face's tell it by a property of theirs
        yield from [str(one["filename"]) for one in getattr(dataset, "cache_files", [])[:1]]
    held = getattr(dataset, "__dict__", None)
    if not isinstance(held, dict):
        return
    for value in list(held.values())[:MAX_FIELDS]:
        text = _text(value)
        if text is not None:
            yield text
    if depth > 0:
        for name in WITHIN:
            inner = held.get(name)
            inner = inner[0] if isinstance(inner, (list, tuple)) and inner else inner
            if inner is not None:
                yield from _paths(inner, depth - 1)


def _text(value: Any) -> str | None:
    """A path, or the first one of a list of them (or of pairs that begin with one); a memory map's file."""
    for _ in range(3):
        if type(value) in (list, tuple) and value:
            value = value[0]
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    elif type(value).__name__ == "memmap":
        value = str(getattr(value, "filename", None) or "")
    if isinstance(value, str) and os.sep in value and "://" not in value and "\n" not in value and len(value) < 4096:
        return value
    return None


def type_at(path: str, mounts: str = MOUNTS) -> str | None:
    """The type of what is mounted where the path is; None where the kernel doesn't tell. Does not touch the path."""
    best, found = -1, None
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                fields, _, source = line.partition(" - ")
                words = fields.split()
                if len(words) < 5 or not source:
                    continue
                point = _unescaped(words[4])
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= best:  # a later mount lies over an earlier one
                    best, found = len(point), source.split()[0]
    except OSError:
        return None
    return found


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
