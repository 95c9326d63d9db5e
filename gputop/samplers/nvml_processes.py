"""The processes on a device as NVML lists them: merged, checked, and named by what /proc knows of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from gputop.records import GpuProcess
from gputop.samplers import namespaces, proc
from gputop.samplers.asking import Failed
from gputop.samplers.nvml_library import FUNCTION_NOT_FOUND, NOT_FOUND, UNSUPPORTED_CODES, code_of
from gputop.samplers.protocol import Say

MOST = 64
"""Rows kept a device, the largest by memory: a record is drawn and recorded every second."""

MOST_KNOWN = 4096
"""Names remembered before all are forgotten: a monitor that runs for weeks must not keep those of every job."""

_NO_MEMORY = (1 << 64) - 1


def pid_limit() -> int:
    """One more than the largest pid that this kernel gives."""
    try:
        return int(proc.read("/proc/sys/kernel/pid_max", 32))
    except (OSError, ValueError):
        return 1 << 22


def may_be_machines() -> bool:
    """Whether the driver may list the machine's pids here: this is a container that has been given its devices."""
    return namespaces.contained() and any(os.path.exists(path) for path in ("/dev/nvidiactl", "/dev/dxg"))


class Names:
    """What is known of each process, remembered by pid and start time: a pid may be another's tomorrow.

    In a container some drivers list the machine's numbers, which mean other processes there: one that surely has no GPU
    open is not the one that is listed.
    """

    def __init__(self, doubtful: bool = False, holds_gpu: Callable[[int], bool | None] = proc.holds_gpu) -> None:
        """`doubtful`: whether numbers may be the machine's while this is a container (see `may_be_machines`)."""
        self.cmdline = True
        self._doubtful = doubtful
        self._holds_gpu = holds_gpu
        self._known: dict[int, tuple[int, str, str | None, str | None]] = {}
        self._strangers: set[tuple[int, int]] = set()

    def of(self, pid: int, mem_bytes: int | None, sm_pct: float | None = None) -> GpuProcess:
        """The row of a process; without a name when it is gone or lives in another pid namespace."""
        try:
            stat = proc.of(pid)
        except (OSError, ValueError):
            self._known.pop(pid, None)
            return GpuProcess(pid=pid, mem_bytes=mem_bytes, sm_pct=sm_pct)
        known = self._known.get(pid)
        if known is None or known[0] != stat.start:
            if len(self._known) + len(self._strangers) >= MOST_KNOWN:
                self._known.clear()
                self._strangers.clear()
            key = (pid, stat.start)
            if self._doubtful and (key in self._strangers or self._holds_gpu(pid) is False):
                self._strangers.add(key)
                return GpuProcess(pid=pid, mem_bytes=mem_bytes, sm_pct=sm_pct)
            known = self._known[pid] = (stat.start, stat.name, proc.user(pid), proc.cmdline(pid))
        return GpuProcess(
            pid=pid,
            mem_bytes=mem_bytes,
            sm_pct=sm_pct,
            start_ticks=stat.start,
            name=known[1],
            user=known[2],
            cmdline=known[3] if self.cmdline else None,
        )


def ask(nvml: Any, handle: Any, say: Say) -> list[tuple[int, int | None]]:
    """(pid, bytes) of the compute and the graphics list, each process once with the larger figure.

    Raises what NVML raises when neither list can be had, and Failed when an entry can't be true: 535-series drivers
    changed the layout back and forth, and then every entry after the first is garbage.
    """
    rows: dict[int, int | None] = {}
    errors: list[Exception] = []
    for listing in ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetGraphicsRunningProcesses"):
        say(listing)
        try:
            entries = _listed(nvml, handle, listing)
        except Exception as error:
            if code_of(error) != NOT_FOUND:
                errors.append(error)
            continue
        for entry in entries:
            used = None if entry.usedGpuMemory in (None, _NO_MEMORY) else int(entry.usedGpuMemory)
            before = rows.get(entry.pid)
            rows[entry.pid] = used if before is None else max(before, used or 0)
    hard = [error for error in errors if code_of(error) not in UNSUPPORTED_CODES]
    if hard or len(errors) == 2:
        raise (hard or errors)[0]
    return list(rows.items())


def _listed(nvml: Any, handle: Any, listing: str) -> Any:
    """One list by the newest version of the call that the driver has (before 510: the second)."""
    try:
        return getattr(nvml, listing + "_v3")(handle)
    except Exception as error:
        if code_of(error) != FUNCTION_NOT_FOUND:
            raise
    return getattr(nvml, listing + "_v2")(handle)


def checked(rows: list[tuple[int, int | None]], limit: int, total_bytes: int | None) -> list[tuple[int, int | None]]:
    """The rows, largest first. Raises Failed when one can't be true."""
    for pid, used in rows:
        if not 0 < pid < limit or (used and total_bytes and used > total_bytes):
            raise Failed("the driver's process list does not fit its binding (ABI mismatch)")
    return sorted(rows, key=lambda row: -(row[1] or 0))[:MOST]
