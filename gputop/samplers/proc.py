"""/proc/PID read directly: one small read a figure, since psutil's way costs ten times as much with many processes."""

from __future__ import annotations

import os
import pwd
from typing import NamedTuple

from gputop.records import clean

TICK_NS = 1_000_000_000 // (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
"""The unit of CPU times in /proc: a hundredth of a second on every Linux in use, so 1 % over a second."""

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
CMDLINE_LIMIT = 400


class Stat(NamedTuple):
    """What /proc/PID/stat says (source: proc(5)). `start` tells a reused pid apart.

    `ended_ticks`: CPU time of children that have ended and were waited for.
    """

    pid: int
    name: str
    state: str
    ppid: int
    user_ticks: int
    system_ticks: int
    threads: int
    start: int
    rss_bytes: int
    ended_ticks: int = 0


def read(path: str, size: int = 4096) -> bytes:
    """A small file of /proc in one read. Raises OSError (gone, or not ours to read)."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, size)
    finally:
        os.close(fd)


def stat(path: str) -> Stat:
    """A `stat` file of a process or of one of its threads. Raises OSError or ValueError."""
    line = read(path, 1024)
    # The name may hold anything, blanks and brackets too: it ends at the last bracket.
    head, _, tail = line.rpartition(b")")
    pid, _, name = head.partition(b" (")
    part = tail.split(None, 23)
    if len(part) < 22:
        raise ValueError(f"{path}: not a stat line")
    return Stat(
        pid=int(pid),
        name=_text(name),
        state=chr(part[0][0]),
        ppid=int(part[1]),
        user_ticks=int(part[11]),
        system_ticks=int(part[12]),
        threads=int(part[17]),
        start=int(part[19]),
        rss_bytes=int(part[21]) * PAGE_BYTES,
        ended_ticks=int(part[13]) + int(part[14]),
    )


def _text(name: bytes) -> str:
    """A name that is safe to show. Nearly all are plain ASCII, and thousands are read in one go."""
    text = name.decode("utf-8", "replace")
    return text if text.isascii() and text.isprintable() else clean(text, 64)


def of(pid: int) -> Stat:
    """The process. Raises OSError or ValueError."""
    return stat(f"/proc/{pid}/stat")


def start(pid: int) -> int | None:
    """When it started, in clock ticks since boot; None when it is gone or lives in another pid namespace."""
    try:
        return of(pid).start
    except (OSError, ValueError):
        return None


def arguments(pid: int) -> list[str]:
    """Its command line; empty for a kernel thread or a zombie. Raises OSError."""
    data = read(f"/proc/{pid}/cmdline", 8192)
    return [part.decode("utf-8", "replace") for part in data.rstrip(b"\0").split(b"\0")] if data else []


def cmdline(pid: int) -> str | None:
    """Its command line as one line that is safe to show; None when there is none to be had."""
    try:
        return clean(" ".join(arguments(pid)), CMDLINE_LIMIT) or None
    except OSError:
        return None


def user(pid: int) -> str | None:
    """Its owner by name, by number when no such user is known here (a container), None when it is gone."""
    try:
        uid = os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None
    return name_of(uid)


def name_of(uid: int) -> str:
    """A user's name, the number where no such user is known here."""
    try:
        return clean(pwd.getpwuid(uid).pw_name, 64)
    except (KeyError, OSError):
        return str(uid)


def io(pid: int) -> tuple[int, int]:
    """(read_bytes: from storage, rchar: through read calls, page-cache hits too). Raises OSError, often EACCES."""
    figures = {}
    for line in read(f"/proc/{pid}/io", 512).splitlines():
        name, _, value = line.partition(b":")
        figures[name] = int(value)
    return figures[b"read_bytes"], figures[b"rchar"]


def wait_ns(path: str) -> int | None:
    """How long a thread has stood ready without a core, from its schedstat; None where the kernel doesn't keep it."""
    try:
        return int(read(path).split()[1])
    except (OSError, ValueError, IndexError):
        return None


def children(pid: int) -> list[int]:
    """The children that its main thread has started. Raises OSError, also where the kernel keeps no such list."""
    return [int(child) for child in read(f"/proc/{pid}/task/{pid}/children", 1 << 16).split()]


def executable(pid: int) -> str | None:
    """The file that it runs, None when that is not ours to know."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


GPU_DEVICES = ("/dev/nvidia", "/dev/dxg")
"""The files through which a process uses an NVIDIA GPU: the driver's own, and WSL's."""


def holds_gpu(pid: int) -> bool | None:
    """Whether a process has an NVIDIA GPU open; None where that is not ours to know."""
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return None
    for descriptor in descriptors:
        try:
            if os.readlink(f"/proc/{pid}/fd/{descriptor}").startswith(GPU_DEVICES):
                return True
        except OSError:
            continue
    return False


def pids() -> list[int]:
    """Every process there is."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
