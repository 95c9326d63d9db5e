"""Every field asked of the machine: how it is read, and rates as differences on a clock that never steps."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from gputop.records import Disk, clean
from gputop.samplers import cgroup, proc
from gputop.samplers.asking import SLOW_NS, Answers, Question, Unsupported
from gputop.samplers.protocol import S

MS = 1_000_000
GAP_NS = 150 * S
"""Time after which a difference is no rate of now any more: more than two of the longest intervals."""

STACKED_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "drbd", "bcache")
"""Block devices that lie on others, or on none: their traffic would be counted twice."""

CPU = ("cpu_pct", "user_pct", "system_pct", "iowait_pct", "steal_pct", "per_core_pct", "cores")
MEMORY = ("mem_used_bytes", "mem_total_bytes")
SWAP = ("swap_used_bytes", "swap_in_bytes_s")
DISK = ("disk_read_bytes_s", "disk_write_bytes_s", "disk_busy_pct", "disk_await_ns", "disks")
MOST_DISKS = 8
"""Disks told of one by one, the busiest: a record is drawn and recorded every second."""

WHOLE_DISK = re.compile(r"(sd|vd|xvd|hd)[a-z]+|nvme\d+n\d+|mmcblk\d+")
"""Names of whole disks, for where there is no /sys to ask."""
NET = ("net_recv_bytes_s", "net_sent_bytes_s")
CGROUP = ("cpu_quota_cores", "throttled_ns")
SHM = ("shm_used_bytes", "shm_total_bytes")


class Machine:
    """What the questions share: the tick's time, whose control group counts, and the figures of the tick before."""

    def __init__(self) -> None:
        self.now_ns = 0
        self.pid: int | None = None
        self._before: dict[str, tuple[int, Any]] = {}
        self.answers: Answers[Machine] = Answers(questions(), refused)

    def since(self, key: str, figures: Any) -> tuple[float, Any] | None:
        """(seconds, the figures of the tick before), None the first time and after a gap. Keeps these for the next."""
        before = self._before.get(key)
        self._before[key] = (self.now_ns, figures)
        if before is None or not 0 < self.now_ns - before[0] <= GAP_NS:
            return None
        return (self.now_ns - before[0]) / S, before[1]


def refused(error: Exception) -> bool:
    """Whether the system does not have it at all."""
    return isinstance(error, Unsupported | FileNotFoundError | NotImplementedError | AttributeError | KeyError)


def questions() -> list[Question[Machine]]:
    """Everything asked of the machine."""
    return [
        Question("/proc/stat", CPU, _cpu),
        Question("loadavg", ["load1"], lambda _: {"load1": os.getloadavg()[0]}),
        Question("/proc/meminfo", MEMORY, _memory),
        Question("/proc/vmstat", SWAP, _swap, SLOW_NS),
        Question("/proc/diskstats", DISK, _disk),
        Question("/proc/net/dev", NET, _net),
        Question("cgroup", CGROUP, _cgroup, SLOW_NS),
        Question("/proc/pressure/cpu", ["psi_cpu_pct"], _pressure("cpu")),
        Question("/proc/pressure/io", ["psi_io_pct"], _pressure("io")),
        Question("/proc/pressure/memory", ["psi_mem_pct"], _pressure("memory", "psi_mem_pct")),
        Question("/dev/shm", SHM, _shm, SLOW_NS),
    ]


def _busy(now: Any, before: Any) -> dict[str, float] | None:
    """Shares of one core's (or all cores') time between two psutil.cpu_times, in percent; None when none has passed.

    `guest` times are part of `user` and `nice` (proc(5)) and are left out of the total. iowait may go backwards, which
    the kernel documents: never less than nothing.
    """
    spent = {
        name: max(float(getattr(now, name)) - float(getattr(before, name)), 0.0)
        for name in now._fields
        if name not in ("guest", "guest_nice")
    }
    total = sum(spent.values())
    return {name: 100.0 * value / total for name, value in spent.items()} if total > 0 else None


def _cpu(machine: Machine) -> dict[str, Any]:
    """Shares of all the machine's cores. Which of them a training may use is said by its run, so idle cores out of its
    reach are the reader's to tell."""
    each = psutil.cpu_times(percpu=True)
    whole = type(each[0])(*(sum(column) for column in zip(*each, strict=True)))
    before = machine.since("cpu", (whole, each))
    answer: dict[str, Any] = {"cores": len(each)}
    share = _busy(whole, before[1][0]) if before else None
    if before is None or share is None:
        return answer
    answer |= {
        "cpu_pct": round(100.0 - share.get("idle", 0.0) - share.get("iowait", 0.0), 2),
        "user_pct": round(share.get("user", 0.0) + share.get("nice", 0.0), 2),
        "system_pct": round(share.get("system", 0.0) + share.get("irq", 0.0) + share.get("softirq", 0.0), 2),
        "iowait_pct": round(share["iowait"], 2) if "iowait" in share else Unsupported,
        "steal_pct": round(share["steal"], 2) if "steal" in share else Unsupported,
    }
    cores = [_busy(now, then) for now, then in zip(each, before[1][1], strict=False)]
    if len(each) == len(before[1][1]):
        answer["per_core_pct"] = [
            round(100.0 - core.get("idle", 0.0) - core.get("iowait", 0.0), 1) if core else 0.0 for core in cores
        ]
    return answer


def _memory(_machine: Machine) -> dict[str, Any]:
    memory = psutil.virtual_memory()
    # What is available can be had without swapping; "used" of free(1) counts differently from version to version.
    return {"mem_used_bytes": memory.total - memory.available, "mem_total_bytes": memory.total}


def _swap(machine: Machine) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that /proc/vmstat is not there is told by what is missing
        used = psutil.swap_memory().used
    pages = None
    for line in proc.read("/proc/vmstat", 1 << 15).splitlines():
        if line.startswith(b"pswpin "):
            pages = int(line.split()[1])
    if pages is None:
        return {"swap_used_bytes": used, "swap_in_bytes_s": Unsupported}
    before = machine.since("swap", pages)
    rate = max(pages - before[1], 0) * proc.PAGE_BYTES / before[0] if before else None
    return {"swap_used_bytes": used, "swap_in_bytes_s": rate}


@cache
def _physical_disk(name: str) -> bool:
    """Whether it is a whole disk of its own: no partition, nothing stacked."""
    if not os.path.isdir("/sys/block"):
        return WHOLE_DISK.fullmatch(name) is not None
    return not name.startswith(STACKED_DISKS) and Path("/sys/block", name).exists()


def _disk(machine: Machine) -> dict[str, Any]:
    """Each disk that had something to do, and the physical ones in all: bytes summed, `disk_busy_pct` of the busiest,
    since one full disk holds a loop up however many others idle, `disk_await_ns` the mean time that a request took."""
    counters = psutil.disk_io_counters(perdisk=True, nowrap=False) or {}
    disks = {name: figures for name, figures in counters.items() if _physical_disk(name)}
    if not disks:
        raise Unsupported
    before = machine.since("disk", disks)
    if before is None:
        return {}
    seconds, then = before
    spans = {name: Span(now, then[name], seconds) for name, now in disks.items() if name in then}
    requests = sum(span.requests for span in spans.values())
    busy = [span.busy_pct for span in spans.values() if span.busy_pct is not None]
    active = sorted((one for one in spans.items() if one[1].requests), key=lambda one: -(one[1].busy_pct or 0))
    return {
        "disk_read_bytes_s": sum(span.rate("read_bytes") for span in spans.values()),
        "disk_write_bytes_s": sum(span.rate("write_bytes") for span in spans.values()),
        "disk_busy_pct": max(busy) if busy else None,
        "disk_await_ns": int(sum(span.waited_ms for span in spans.values()) * MS / requests) if requests else None,
        "disks": [
            Disk(
                name=clean(name, 64), busy_pct=span.busy_pct, await_ns=int(span.waited_ms * MS / span.requests),
                read_bytes_s=round(span.rate("read_bytes"), 1), write_bytes_s=round(span.rate("write_bytes"), 1),
            ) for name, span in active[:MOST_DISKS]
        ],
    }  # fmt: skip


class Span:
    """What one disk did between two looks at its counters. A counter that fell counts as nothing."""

    def __init__(self, now: Any, then: Any, seconds: float) -> None:
        self._now, self._then, self._seconds = now, then, seconds
        self.requests = self._grown("read_count") + self._grown("write_count")
        self.waited_ms = self._grown("read_time") + self._grown("write_time")
        self.busy_pct = (
            round(min(self._grown("busy_time") / (10 * seconds), 100.0), 2) if hasattr(now, "busy_time") else None
        )

    def _grown(self, name: str) -> int:
        return max(int(getattr(self._now, name)) - int(getattr(self._then, name)), 0)

    def rate(self, name: str) -> float:
        """Growth of a counter a second."""
        return self._grown(name) / self._seconds


@cache
def _has_hardware(name: str) -> bool:
    return Path("/sys/class/net", name, "device").exists()


def _net(machine: Machine) -> dict[str, Any]:
    """Summed over the cards; in a container, where none is seen, over everything but the loopback."""
    counters = psutil.net_io_counters(pernic=True, nowrap=False) or {}
    cards = {name: figures for name, figures in counters.items() if _has_hardware(name)}
    nics = cards or {name: figures for name, figures in counters.items() if name != "lo"}
    if not nics:
        raise Unsupported
    before = machine.since("net", nics)
    if before is None:
        return {}
    seconds, then = before
    both = [(now, then[name]) for name, now in nics.items() if name in then]
    return {
        "net_recv_bytes_s": sum(max(now.bytes_recv - old.bytes_recv, 0) for now, old in both) / seconds,
        "net_sent_bytes_s": sum(max(now.bytes_sent - old.bytes_sent, 0) for now, old in both) / seconds,
    }


def _cgroup(machine: Machine) -> dict[str, Any]:
    """The limit of the first training process followed, of this process while there is none."""
    try:
        found = cgroup.of(machine.pid if machine.pid is not None else "self")
    except OSError:
        if machine.pid is None:
            raise
        found = cgroup.of("self")
    return {"cpu_quota_cores": found.quota_cores, "throttled_ns": found.throttled_ns}


def _pressure(resource: str, field: str | None = None) -> Callable[[Machine], Mapping[str, Any]]:
    """The share of the interval in which some task waited for the resource, by the kernel's own clock of it
    (source: the kernel's accounting/psi)."""
    name = field or f"psi_{resource}_pct"

    def ask(machine: Machine) -> Mapping[str, Any]:
        for line in proc.read(f"/proc/pressure/{resource}", 512).splitlines():
            if line.startswith(b"some "):
                total_us = int(line.rpartition(b"total=")[2])
                before = machine.since(name, total_us)
                if before is None:
                    return {}
                return {name: round(min(max(total_us - before[1], 0) / (before[0] * 1e4), 100.0), 3)}
        raise Unsupported

    return ask


def _shm(_machine: Machine) -> dict[str, Any]:
    shm = os.statvfs("/dev/shm")
    return {
        "shm_used_bytes": (shm.f_blocks - shm.f_bfree) * shm.f_frsize,
        "shm_total_bytes": shm.f_blocks * shm.f_frsize,
    }
