"""Device time of a step's parts: marks put into the device's queue where one part of the loop ends and the next begins.

A region lies between two successive marks, which its neighbours share. Marks are read on the training thread, at a
step's end and at least two steps late; one that the device has not reached by then is asked again a step later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from gputop.publisher.device import DeviceClock
from gputop.publisher.segment import Segment
from gputop.publisher.worth import Key, Row, Worth

MAX_MARKS = 8
"""Marks a step besides the one it begins with: each costs the host some microseconds."""

STEPS_LATE = 2
"""Steps that pass before a step's marks are first asked for."""

MAX_WAITING = 64
"""Steps that may wait for the device; above, the oldest goes out without device times and its marks are given up."""

SHARED_NS = 20_000
"""Two boundaries closer than this on the host share one mark."""

LOOSE_SHARE = 7
"""A stretch of no name that launched nothing shares its mark too below 1/128 (2 to this power) of the last step."""

MEMORY_EVERY_NS = 1_000_000_000
"""Between two looks at the allocator's figures, which cost tens of microseconds."""

IDLE_PARTS = frozenset({"data", "checkpoint"})
"""Parts that launch no device work, where the device does not count what was launched. What saving copies out of the
device is no computing either."""


class Mark:
    """A mark in the queue; `refs` counts the regions that still need it."""

    __slots__ = ("at", "launched", "raw", "refs")

    def __init__(self, raw: Any, at: int, launched: int | None) -> None:
        self.raw = raw
        self.at = at
        self.launched = launched
        self.refs = 0


class Region:
    """The part of a loop between two marks. `idle` is whether the queue was empty at its end; None is not known."""

    __slots__ = ("begin", "end", "idle", "key", "name")

    def __init__(self, name: str, begin: Mark, end: Mark, idle: bool | None, key: Key | None = None) -> None:
        self.key = key
        self.name = name
        self.begin = begin
        self.end = end
        self.idle = idle
        begin.refs += 1
        end.refs += 1


class Regions:
    """The marks of one training thread on one device."""

    def __init__(self, clock: DeviceClock) -> None:
        self._clock = clock
        self._last: Mark | None = None
        self._asked: tuple[Mark, bool | None] | None = None
        self._drained = False
        self._waiting: deque[tuple[Segment, int]] = deque()
        self._count = 0
        self._memory_at = 0
        self._loose_ns = SHARED_NS
        self._worth = Worth(MAX_MARKS)

    def request(self, now: int) -> None:
        """The loop asks for a batch: a mark that a new segment may begin with."""
        if not self._clock.ready():
            self._asked = None
            return
        idle = None if self._drained else self._clock.idle()
        self._drained = False
        self._asked = self._mark(now), idle

    def begin(self, before: Segment | None) -> None:
        """A segment begins at the last request: what ran before it since the last mark is no part with a name."""
        if self._asked is not None:
            mark, idle = self._asked
            if before is not None and self._last is not None:
                self._put(before, Region("other", self._last, mark, idle))
            self._last, self._asked = mark, None

    def boundary(self, seg: Segment, name: str, now: int) -> None:
        """The part `name` ends here."""
        last = self._last
        if not self._clock.ready():
            self._last = None
            return
        row, launched = seg.row, self._clock.launched()
        first = row is None and last is None  # no mark is near to be shared: after steps that were only counted
        if row is None:
            row = seg.row = Row(last.at, last.launched) if last is not None else Row(now - SHARED_NS, launched)
        if not first and self._shares(row, name, now, launched):
            return
        key = row.add(name, now, launched)
        if not self._worth.marked(key, row):
            self._last = None
            return
        row.marks += 1
        idle = None if self._drained else self._clock.idle()
        self._drained = False
        mark = self._last = self._mark(now)
        if last is not None:
            self._put(seg, Region(name, last, mark, idle, key))

    def _shares(self, row: Row, name: str, now: int, launched: int | None) -> bool:
        """Whether the part ends so close to the one before that it needs no mark of its own."""
        if now - row.before < SHARED_NS:
            return True
        return name == "other" and now - row.before < self._loose_ns and launched == row.launched

    def pause(self) -> None:
        """No mark is made for a while: none before it begins a region after it."""
        self._last = self._asked = None

    def drained(self) -> None:
        """The host has just waited for the device: an empty queue at the next boundary says nothing."""
        self._drained = True

    def finish(self, seg: Segment, emit: Callable[[Segment], None]) -> None:
        """A segment is over: it goes out once its marks have been read, in order."""
        self._count += 1
        self._loose_ns = max(SHARED_NS, (seg.end - seg.start) >> LOOSE_SHARE)
        if seg.end - self._memory_at > MEMORY_EVERY_NS and self._clock.ready():
            self._memory_at = seg.end
            seg.say(**self._clock.memory())
        if seg.row is not None:
            self._worth.finish(seg.row)
            seg.shares = _shares_timed(seg.row, seg.regions or [])
            seg.row = None
        self._waiting.append((seg, self._count))
        while self._waiting:
            seg, count = self._waiting[0]
            if seg.regions:
                late = self._count - count
                if late < STEPS_LATE:
                    return
                if self._clock.ready() and all(self._clock.done(region.end.raw) for region in seg.regions):
                    self._resolve(seg)
                elif len(self._waiting) <= MAX_WAITING:
                    return
            seg.regions = None
            self._waiting.popleft()
            emit(seg)

    def flush(self, emit: Callable[[Segment], None]) -> None:
        """The run ends: what still waits goes out, with device times where they are known already."""
        while self._waiting:
            seg, _ = self._waiting.popleft()
            if seg.regions and self._clock.ready() and all(self._clock.done(r.end.raw) for r in seg.regions):
                self._resolve(seg)
            seg.regions = None
            emit(seg)

    def _put(self, seg: Segment, region: Region) -> None:
        if seg.regions is None:
            seg.regions = []
        seg.regions.append(region)

    def _mark(self, now: int) -> Mark:
        return Mark(self._clock.mark(), now, self._clock.launched())

    def _resolve(self, seg: Segment) -> None:
        device: dict[str, int] = {}
        idle: dict[str, int] = {}
        empty: list[bool] = []
        for region in seg.regions or ():
            ns = max(0, self._clock.elapsed_ns(region.begin.raw, region.end.raw))
            if region.key is not None:
                self._worth.timed(region.key, ns)
            if region.name != "other":
                device[region.name] = device.get(region.name, 0) + ns
            if _launched_nothing(region):
                idle[region.name] = idle.get(region.name, 0) + ns
            if region.idle is not None:
                empty.append(region.idle)
            for mark in (region.begin, region.end):
                mark.refs -= 1
                if mark.refs == 0 and mark is not self._last:
                    self._clock.release(mark.raw)
        seg.say(gpu_ns=device, gpu_idle_ns=idle or None)
        if seg.shares:
            seg.say(gpu_share=seg.shares)
        if empty:
            seg.say(queue_empty=sum(empty) / len(empty))


def _shares_timed(row: Row, regions: list[Region]) -> dict[str, float] | None:
    """Of names that were timed in some places only: what share of their host time that is."""
    timed: dict[str, int] = {}
    for region in regions:
        if region.key is not None:
            timed[region.name] = timed.get(region.name, 0) + region.end.at - region.begin.at
    if len(regions) >= len(row.parts):
        return None
    whole = dict.fromkeys(timed, 0)
    for (name, _), ns in row.parts:
        if name in whole:
            whole[name] += ns
    return {name: round(ns / whole[name], 3) for name, ns in timed.items() if 0 < ns < whole[name]} or None


def _launched_nothing(region: Region) -> bool:
    if region.begin.launched is None or region.end.launched is None:
        return region.name in IDLE_PARTS
    return region.begin.launched == region.end.launched
