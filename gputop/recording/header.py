"""What a file is, from its first bytes: a recording, an empty file, or something else."""

from __future__ import annotations

import errno
import stat
from pathlib import Path

from gputop.recording.errors import Unreadable
from gputop.recording.schema import APPLICATION_ID

HEADER_BYTES = 100
DENIED = (errno.EACCES, errno.EPERM)
MAGIC = b"SQLite format 3\0"


def first_bytes(path: Path, *, to_write: bool = False) -> bytes:
    """The file's first bytes. Raises Unreadable: no such file, no plain file, may not be read."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise Unreadable(f"{path} is a directory, not a recording; name a file in it")
        if not stat.S_ISREG(mode):
            give = "name a file to record to" if to_write else "give a recording (.gputop) or a trace (.jsonl)"
            raise Unreadable(f"{path} is no plain file; {give}")
        with open(path, "rb") as file:
            return file.read(HEADER_BYTES)
    except OSError as error:
        reason = (error.strerror or "can't be read").lower()
        mend = "it is left as it is" if to_write else "may you read it?" if error.errno in DENIED else "check the name"
        raise Unreadable(f"{path} can't be read: {reason}; {mend}") from None


def is_sqlite(head: bytes) -> bool:
    """Whether a file that begins so is an SQLite file."""
    return head.startswith(MAGIC)


def application_id(head: bytes) -> int:
    """What an SQLite file says it belongs to (bytes 68 to 71); 0 when nothing."""
    return int.from_bytes(head[68:72], "big")


def refuse_foreign(path: Path, *, to_write: bool = False) -> None:
    """Raise Unreadable unless the file is a recording; to be written, it may also be missing or empty."""
    if to_write and (not path.exists() or (path.is_file() and path.stat().st_size == 0)):
        return
    head = first_bytes(path, to_write=to_write)
    mend = "; choose another name, it is left as it is" if to_write else ""
    if not head:
        raise Unreadable(f"{path} is empty: nothing was recorded")
    if not is_sqlite(head):
        raise Unreadable(
            f"{path} is not a recording{mend or '; gputop reads recordings (.gputop) and traces (.jsonl)'}"
        )
    if len(head) < HEADER_BYTES:
        raise Unreadable(f"{path} is cut off after {len(head)} bytes: nothing in it can be read{mend}")
    if application_id(head) != APPLICATION_ID:
        raise Unreadable(f"{path} is an SQLite file, but not a recording of gputop{mend}")
