"""Where an export goes: a file or folder that appears under its name only when it is whole."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from gputop.recording.naming import is_read

STDOUT = "-"
"""The name that means standard output."""


@contextmanager
def file(path: str, *, force: bool = False, source: Path | None = None) -> Iterator[BinaryIO]:
    """A file to write into: renamed to `path` when the block ends well, gone when it does not.

    "-" is standard output; what exists and is no plain file (a pipe, a device) is written into as it is. Raises
    FileExistsError for an existing file without `force`, or where it is `source`, the one that is read, and OSError as
    the file system does.
    """
    if path == STDOUT:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    place = Path(os.path.realpath(path))
    if place.exists() and not stat.S_ISREG(place.stat().st_mode):
        with open(place, "wb") as out:
            yield out
        return
    check(path, force=force, source=source)
    partial = _partial(place)
    try:
        with open(partial, "xb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        check(path, force=force, source=source)
        os.replace(partial, place)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def folder(path: str, *, force: bool = False, source: Path | None = None) -> Iterator[Path]:
    """A folder to write files into: renamed to `path` when the block ends well, gone when it does not.

    An existing folder is taken where it is empty or with `force`: files of the same names in it are replaced, others
    stay. Raises FileExistsError else, or where one of them is `source`, and OSError as the file system does.
    """
    place = Path(os.path.realpath(path))
    check(path, force=force)
    partial = _partial(place)
    try:
        partial.mkdir()
        yield partial
        check(path, force=force)
        if not place.exists():
            os.rename(partial, place)
        else:
            for one in sorted(partial.iterdir()):
                check(str(place / one.name), force=True, source=source)
                os.replace(one, place / one.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def check(path: str, *, force: bool, source: Path | None = None) -> None:
    """Raise FileExistsError where something would be lost: an existing file or a filled folder, without `force`; and
    `source`, whatever is said."""
    place = Path(os.path.realpath(path))
    if source is not None and is_read(place, source):
        raise FileExistsError(17, "is the file that is read", path)
    if not place.exists() or force:
        return
    if place.is_dir() and not any(place.iterdir()):
        return
    raise FileExistsError(17, "exists already", path)


def _partial(place: Path) -> Path:
    """The name under which it grows: beside its place, so that renaming it never copies."""
    return place.with_name(f".{place.name}.{os.getpid()}.partial")
