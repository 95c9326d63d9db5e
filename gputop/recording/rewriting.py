"""A recording written anew from records: under its name only when it is whole, with nothing of any older file in it."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gputop.recording.chunk import DESCRIBING
from gputop.recording.naming import JOURNALS, is_read
from gputop.recording.sqlite import as_disk_errors
from gputop.recording.thinning import EXACT_RATE
from gputop.recording.volume import file_system, is_network
from gputop.recording.writer import Writer
from gputop.records import AnyRecord, Step

S = 1_000_000_000

MOST = 10_000
"""Records in one transaction."""


@contextmanager
def new_file(out: Path, source: Path, *, force: bool = False) -> Iterator[Path]:
    """A name to write under: what is there is renamed to `out` when the block ends well, and gone when it does not.

    Raises FileExistsError for an existing file without `force`, for what is no plain file, or where it is the one that
    is read, and OSError.
    """
    place = Path(os.path.realpath(out))
    if place.exists():
        if is_read(place, source):
            raise FileExistsError(errno.EEXIST, "is the file that is read", str(out))
        if not place.is_file():
            what = "is a folder" if place.is_dir() else "is no plain file"
            raise FileExistsError(errno.EEXIST, what, str(out))
        if not force:
            raise FileExistsError(errno.EEXIST, "exists already", str(out))
    partial = place.with_name(f".{place.name[:200]}.{os.getpid()}.partial")
    try:
        yield partial
        os.replace(partial, place)
    finally:
        for suffix in ("", *JOURNALS):
            with suppress(OSError):
                os.unlink(f"{partial}{suffix}")


def write_anew(records: Iterable[AnyRecord], path: Path) -> Counter[str]:
    """Write records into a new recording at `path`; returns how many of each type. Raises OSError.

    A transaction holds about a second, as a recorder's, and so few steps that none of them is thinned once more.
    """
    written: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    began = newest = count = most_steps = 0
    writer = Writer(path, journal="delete" if is_network(file_system(path)) else "wal")
    try:
        for record in records:
            told = not isinstance(record, DESCRIBING)
            if (began and told and record.t - began >= S) or count >= MOST or most_steps >= EXACT_RATE:
                writer.commit(newest)
                began = count = most_steps = 0
                steps.clear()
            if told and not began:
                began = record.t
            newest = max(newest, record.t)
            count += 1
            writer.add(record)
            written[str(type(record).__struct_config__.tag)] += 1
            if isinstance(record, Step):
                steps[record.run_id] += 1
                most_steps = max(most_steps, steps[record.run_id])
    finally:
        writer.close(newest)
    return written


def wipe(path: Path) -> None:
    """Rebuild a closed recording, so that no page holds a trace of what was written and deleted. Raises OSError."""
    with as_disk_errors(path):
        db = sqlite3.connect(path, isolation_level=None)
        try:
            db.execute("PRAGMA secure_delete = ON")
            db.execute("VACUUM")
        finally:
            db.close()
