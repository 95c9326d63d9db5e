"""What a path names: which file is there, what an open file is called by now, a name that is free."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

JOURNALS = ("-wal", "-shm", "-journal")
"""What the names of the files end with that SQLite keeps beside one that is written."""

Identity = tuple[int, int]
"""Device and inode: which file it is, whatever it is called."""


def default_path(now_ns: int, folder: Path | None = None) -> Path:
    """What a recording is called when nothing is said: "gputop-20261202-101746.gputop" in the working folder."""
    when = time.strftime("%Y%m%d-%H%M%S", time.localtime(now_ns / 1e9))
    return (folder or Path.cwd()) / f"gputop-{when}.gputop"


def identity(path: Path) -> Identity | None:
    """Which file is there; None when there is none. Raises OSError when that can't be said."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def whereabouts(wanted: Identity) -> Path | None:
    """What a file that this process holds open is called now; None when it has no name any more, or without /proc."""
    with contextlib.suppress(OSError):
        for descriptor in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                link = f"/proc/self/fd/{descriptor}"
                if identity(Path(link)) == wanted and identity(name := Path(os.readlink(link))) == wanted:
                    return name
    return None


def is_read(place: Path, source: Path) -> bool:
    """Whether a place to write to is the file that is read, by whatever name, or what SQLite keeps beside it."""
    for suffix in ("", *JOURNALS):
        with contextlib.suppress(OSError):
            if os.path.samefile(place, f"{source}{suffix}"):
                return True
    return False


def vacant(path: Path) -> Path:
    """The first of path, path-2, path-3 … (before its suffix) at which nothing is."""
    number, found = 2, path
    while os.path.lexists(found):
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
        number += 1
    return found
