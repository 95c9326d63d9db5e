"""What trace events are drawn on: processes with tracks, named before their first use, at times that lose nothing."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from gputop.records import clean

Json = dict[str, Any]

STRIDE = 10
"""Distance of process ids. A track's thread id is its process's id plus the track's number, and no thread id comes
twice: Perfetto takes equal ones for one thread, and a process's own id is a thread's too."""

FIRST = {"run": STRIDE, "gpu": 1_000_000, "host": 2_000_000}
"""Ids of the first process of each kind: viewers list ranks first, then GPUs, then machines."""


class Sheet:
    """Events of the Trace Event Format, gathered in `events` until whoever writes them takes them away."""

    def __init__(self, from_ns: int, tracks: dict[int, str]) -> None:
        self.events: list[Json] = []
        self._from_ns = from_ns
        self._titles = tracks
        self._pids: dict[tuple[str, str], int] = {}
        self._names: dict[int, str] = {}
        self._tracks: set[int] = set()
        self._counts = dict.fromkeys(FIRST, 0)

    def process(self, kind: str, key: str, name: str) -> int:
        """The id of a process ("run", "gpu" or "host"), which is called `name` from now on."""
        pid = self._pids.get((kind, key))
        if pid is None:
            pid = self._pids[kind, key] = FIRST[kind] + STRIDE * self._counts[kind]
            self._counts[kind] += 1
            self._about("process_sort_index", pid, pid, {"sort_index": pid})
        if self._names.get(pid) != name:
            self._names[pid] = name
            self._about("process_name", pid, pid, {"name": name})
        return pid

    def known(self, kind: str, key: str) -> int | None:
        """The id of a process that was named already."""
        return self._pids.get((kind, key))

    def slice(self, pid: int, track: int, t_ns: int, dur_ns: int, name: str, facts: Json | None = None) -> None:
        """Something that takes time. Slices of one track must be disjoint or within each other, the outer one first."""
        tid = self._track(pid, track)
        event: Json = {
            "name": short(name), "cat": "gputop", "ph": "X", "ts": self._ts(t_ns), "dur": us(dur_ns), "pid": pid,
            "tid": tid,
        }  # fmt: skip
        if facts:
            event["args"] = facts
        self.events.append(event)

    def counter(self, pid: int, t_ns: int, name: str, unit: str, value: float) -> None:
        """A gauge's value; one that is no number is left out. Viewers show name and unit together."""
        if math.isfinite(value):
            args = {unit: round(value, 4)}
            self.events.append({"name": name, "ph": "C", "ts": self._ts(t_ns), "pid": pid, "tid": pid, "args": args})

    def instant(self, pid: int | None, track: int, t_ns: int, name: str, facts: Json) -> None:
        """Something that happened, to a process or (None) to all."""
        where: Json = {"s": "g", "pid": 0, "tid": 0}
        if pid is not None:
            where = {"s": "p", "pid": pid, "tid": self._track(pid, track)}
        event: Json = {"name": short(name), "cat": "event", "ph": "i", "ts": self._ts(t_ns), "args": facts}
        self.events.append(event | where)

    def _track(self, pid: int, track: int) -> int:
        tid = pid + track
        if tid not in self._tracks:
            self._tracks.add(tid)
            self._about("thread_name", pid, tid, {"name": self._titles[track]})
            self._about("thread_sort_index", pid, tid, {"sort_index": track})
        return tid

    def _about(self, what: str, pid: int, tid: int, args: Json) -> None:
        self.events.append({"name": what, "ph": "M", "pid": pid, "tid": tid, "args": args})

    def _ts(self, t_ns: int) -> float:
        """Microseconds since the recording's first moment: epoch times would lose their nanoseconds in a double."""
        return us(t_ns - self._from_ns)


def us(ns: int) -> float:
    """Microseconds such that whoever multiplies them by 1000 and cuts off the rest, as Perfetto does, has these ns.

    A nanosecond lost would let neighbouring slices overlap, and overlapping slices are dropped.
    """
    found = ns / 1000
    return found if int(found * 1000.0) == ns else math.nextafter(found, math.copysign(math.inf, ns))


@lru_cache(1024)
def short(name: str) -> str:
    """A name from outside, safe and not too long."""
    return clean(name, 120)
