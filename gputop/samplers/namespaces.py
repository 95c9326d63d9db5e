"""Pids across pid namespaces: which process here is the one that a container knows by another number.

A process is the same only if its namespace, its number in it and its start time all agree; a number alone is a guess.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from gputop.samplers import proc

INITIAL = 0xEFFFFFFC
"""The inode of the machine's own pid namespace, on every machine (the kernel's proc_ns.h, PROC_PID_INIT_INO)."""


def contained() -> bool:
    """Whether this process has a pid namespace other than the machine's own, as in a container; False where the kernel
    doesn't tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino != INITIAL
    except OSError:
        return False


def outer_pid(pid: int, namespace: int, start: int | None, pids: Iterable[int] | None = None) -> int | None:
    """The pid here of the process that has `pid` in the pid namespace of that inode; None where none is certain.

    `start` is when it started, in clock ticks since boot. Looks at every process (`pids`), so ask once a process.
    """
    for here in proc.pids() if pids is None else pids:
        try:
            if os.stat(f"/proc/{here}/ns/pid").st_ino != namespace or inner_pid(here) != pid:
                continue
            if start is None or proc.of(here).start == start:
                return here
        except (OSError, ValueError):
            continue  # gone, or another user's: not ours to know
    return None


def inner_pid(pid: int) -> int | None:
    """A process's number in its own, innermost namespace. Raises OSError; None where the kernel doesn't tell."""
    for line in proc.read(f"/proc/{pid}/status", 4096).splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return None
