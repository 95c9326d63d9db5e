"""Where a data set lies, on what kind of file system and on which disk: from the paths that it holds, of which few are
asked for, once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

MAX_DEPTH = 4
"""Data sets within data sets (`Subset`, `ConcatDataset`) that are looked into."""

MAX_FIELDS = 50
MAX_ASKED = 6
"""Paths whose existence is asked for: on a network's file system each takes its time."""

WITHIN = ("dataset", "datasets", "_dataset")
MOUNTS = "/proc/self/mountinfo"


SYSFS = "/sys"
NO_DISKS = ("loop", "ram", "zram", "nbd", "md", "dm-", "sr", "fd")
"""Devices that are no disk: images, memory, what lies on others."""


class Place(NamedTuple):
    """The type of the file system as Linux names it, e.g. `ext4` or `nfs4`, and the kernel's name of the disk."""

    file_system: str | None = None
    disk: str | None = None


def place(dataset: Any, mounts: str = MOUNTS, sysfs: str = SYSFS) -> Place:
    """Where its files lie; None for what isn't seen."""
    path = path_of(dataset)
    if path is None:
        return Place()
    kind, number, source = mount_at(path, mounts)
    return Place(kind, disk(number, source, sysfs))


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


def mount_at(path: str, mounts: str = MOUNTS) -> tuple[str | None, str, str]:
    """The type, device number ("259:2") and source of what is mounted where the path is; None and "" where the kernel
    doesn't tell. Does not touch the path."""
    best = -1
    found: tuple[str | None, str, str] = (None, "", "")
    try:
        with open(mounts, encoding="utf-8", errors="surrogateescape") as lines:
            for line in lines:
                fields, _, source = line.partition(" - ")
                words, origin = fields.split(), source.split()
                if len(words) < 5 or not origin:
                    continue
                point = _unescaped(words[4])
                inside = path == point or path.startswith(point.rstrip("/") + "/")
                if inside and len(point) >= best:  # a later mount lies over an earlier one
                    best, found = len(point), (origin[0], words[2], _unescaped(origin[1]) if len(origin) > 1 else "")
    except OSError:
        return None, "", ""
    return found


def disk(number: str, source: str, sysfs: str = SYSFS) -> str | None:
    """The one disk that a mounted device is (a part of), through what is stacked on it; None where it is none, several
    or not seen. Some file systems (btrfs) have a number of no device: then the source's name is looked up."""
    node = os.path.realpath(f"{sysfs}/dev/block/{number}")
    if not os.path.isdir(node):
        if not source.startswith("/dev/"):
            return None
        node = os.path.realpath(f"{sysfs}/class/block/{os.path.basename(os.path.realpath(source))}")
    for _ in range(8):
        try:
            below = os.listdir(f"{node}/slaves")
        except OSError:
            below = []
        if len(below) > 1 or not os.path.isdir(node):
            return None
        if not below:
            break
        node = os.path.realpath(f"{node}/slaves/{below[0]}")
    name = os.path.basename(os.path.dirname(node) if os.path.exists(f"{node}/partition") else node)
    return None if name.startswith(NO_DISKS) else name


def _unescaped(point: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), point)
