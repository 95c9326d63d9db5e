"""SQLite as any file: its errors say what happened to the disk, and what is forgotten is closed."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_DISK = (
    ("full", errno.ENOSPC, "no space left on the disk"),
    ("readonly", errno.EROFS, "the file can't be written: it, its folder or its file system is read-only"),
    ("locked", errno.EBUSY, "another program holds the file locked"),
    ("unable to open", errno.EACCES, "the file can't be opened: its folder is missing or may not be written"),
    ("malformed", errno.EIO, "the file is damaged"),
    ("not a database", errno.EIO, "the file is damaged"),
    ("disk i/o", errno.EIO, "reading or writing the disk failed"),
)


def disk_error(error: sqlite3.Error, path: Path | str) -> OSError:
    """What an SQLite error says about the disk."""
    said = str(error).lower()
    for words, number, sentence in _DISK:
        if words in said:
            return OSError(number, sentence, str(path))
    return OSError(errno.EIO, f"the file could not be used: {error}", str(path))


@contextmanager
def as_disk_errors(path: Path | str) -> Iterator[None]:
    """Raise what SQLite says as OSError."""
    try:
        yield
    except sqlite3.Error as error:
        raise disk_error(error, path) from None


class Connection(sqlite3.Connection):
    """A connection that is closed, as any file is, when nobody holds it any more: from Python 3.13 on SQLite's own
    complains of that."""

    def __del__(self) -> None:
        with suppress(sqlite3.Error):
            self.close()
