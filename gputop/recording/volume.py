"""The volume that a file lies on: how much is free, and whether other machines may see it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")

NETWORK = frozenset((
    "9p", "acfs", "afs", "ceph", "cifs", "coda", "gfs", "gfs2", "glusterfs", "gpfs", "beegfs", "lustre",
    "mmfs", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "pvfs2", "smb3", "smbfs", "virtiofs", "vboxsf",
    "vmhgfs", "weka", "wekafs",
))  # fmt: skip
"""Types whose files another machine (or the host of a virtual one) may have open. Any `fuse` type counts as one too."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


def file_system(path: Path, mountinfo: str | None = None) -> str | None:
    """The type of the file system that a path is on, or would be made on: "ext4", "nfs4". None where it isn't known."""
    if mountinfo is None:
        try:
            mountinfo = MOUNTINFO.read_text(errors="surrogateescape")
        except OSError:
            return None
    place = os.path.realpath(path)
    found, longest = None, -1
    for point, kind in _mounts(mountinfo):
        prefix = point.rstrip("/") + "/"
        if (place + "/").startswith(prefix) and len(prefix) >= longest:
            found, longest = kind, len(prefix)
    return found


def is_network(kind: str | None) -> bool:
    """Whether SQLite's write-ahead log, which needs memory shared by all who open a file, can't be relied on there.

    See https://sqlite.org/wal.html: "all processes using a database must be on the same host computer".
    """
    return kind is not None and (kind in NETWORK or kind.startswith("fuse"))


def free_bytes(path: Path, statvfs: Callable[[str], os.statvfs_result] = os.statvfs) -> tuple[int, int]:
    """What is free to this user on the path's volume, and how much the volume holds. Raises OSError."""
    found = statvfs(os.fspath(path))
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize


def _mounts(mountinfo: str) -> Iterator[tuple[str, str]]:
    """Mount points and types, in order of mounting: what is mounted over another comes later (proc(5))."""
    for line in mountinfo.splitlines():
        left, _, right = line.partition(" - ")
        fields, kind = left.split(), right.split()[:1]
        if len(fields) >= 5 and kind:
            yield _ESCAPED.sub(lambda match: chr(int(match[1], 8)), fields[4]), kind[0]
