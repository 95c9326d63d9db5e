"""The transaction that a recorder with a rollback journal was killed in.

SQLite undoes it when the file is next written (see "Hot Rollback Journals" on its page about atomic commits). Who only
reads may not do so, and would read what lies there.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path


def is_unfinished(path: Path) -> bool:
    """Whether a journal with anything in it lies beside the file."""
    journal = Path(f"{path}-journal")
    try:
        return journal.stat().st_size > 0
    except OSError:
        return False


def undo(path: Path) -> bool:
    """Undo it; whether the file can be read then."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=rw", uri=True, timeout=2.0)) as db:
            db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    except sqlite3.Error:
        return False
    return True


@contextmanager
def undone(path: Path, folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """The file as it was before, and what is to be said of it: a copy in `folder` where there is something to undo.

    Raises OSError where there is no room for the copy.
    """
    if not is_unfinished(path):
        yield path, []
        return
    with tempfile.TemporaryDirectory(prefix=".gputop-", dir=folder) as place:
        copy = Path(place, path.name)
        for suffix in ("", "-journal"):
            shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        if undo(copy):
            yield copy, [f"what its recorder was killed in was undone by {path}-journal"]
        else:
            yield path, [f"{path}-journal can't be used: records of one second may be missing or wrong"]
