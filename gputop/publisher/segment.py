"""A stretch of a training loop from one request for a batch to the next, and the pass over a loader it belongs to."""

from __future__ import annotations

from typing import Any

from gputop.records import Step, SyncSite

LOOSE = ""
"""The phase of time that no mark covers, until a backward names it `forward` or anything else leaves it as `other`."""

MAX_SITES = 5
"""Sync sites that a step names, the costliest first."""

SUMMED = frozenset({"h2d_bytes", "h2d_pageable_bytes", "h2d_blocking_bytes", "d2h_bytes"})
"""Optional fields of a step that add up over its parts; of the others the first part's holds."""


class Source:
    """One pass over a loader: what its requests for batches have turned out to be."""

    __slots__ = ("declared", "epoch", "evaluates", "led", "loader_id", "open", "over", "ref", "steady", "trains")

    def __init__(self, loader_id: int | None, epoch: int | None = None, *, declared: bool = False) -> None:
        self.loader_id = loader_id
        self.epoch = epoch
        self.declared = declared
        """The script itself said that each batch of this pass is a step."""
        self.trains = False
        """A backward or an optimizer step followed one of its batches."""
        self.evaluates = False
        """Its batches are released as steps of their own at once."""
        self.open = True
        """Neither exhausted nor dropped."""
        self.over = False
        """The same as noted, which the step clock may read only later."""
        self.led = 0
        """How often another loader's training batch was asked for right after one of this pass."""
        self.steady = 0
        """Steps in a row of one batch of this pass each, and nothing unusual in them."""
        self.ref: Any = None
        """A weak reference to the iterator, which tells when it is dropped."""


class Segment:
    """What happened since a request for a batch. `phases` holds exclusive host time in ns; `extra` fields of a Step.

    Time since `since` belongs to `top`; `stack` holds what it goes to when the open marks end. What few steps have is a
    class attribute until it is set, since a segment is made for every step. Of a `counted` one only the time was noted.
    """

    cpu: int | None = None
    end = own = n = batches = marks = 0
    first = work = optimizer = partial = counted = False
    samples: int | None = None
    kind: str | None = None
    extra: dict[str, Any] | None = None
    sites: dict[tuple[str, str], list[int]] | None = None
    regions: list[Any] | None = None
    row: Any = None
    shares: dict[str, float] | None = None
    child: list[Any] | None = None
    into: tuple[Segment, int] | None = None

    def __init__(self, start: int, source: Source, cpu_from: int | None) -> None:
        self.start = self.since = self.arrived = start
        self.source = source
        self.cpu_from = cpu_from
        self.top = LOOSE
        self.stack: list[str] = []
        self.phases: dict[str, int] = {}

    def pass_time(self, now: int) -> None:
        """Time up to `now` belongs to the innermost open mark."""
        phases = self.phases
        top = self.top
        phases[top] = phases.get(top, 0) + now - self.since
        self.since = now

    def settle(self) -> None:
        """The segment is over: time that no mark covers is nobody's, but for what the marks themselves have cost."""
        phases = self.phases
        phases.pop(LOOSE, None)
        if self.own:
            own = min(self.own, self.end - self.start - sum(phases.values()))
            if own > 0:
                phases["self"] = phases.get("self", 0) + own
            self.own = 0

    def count(self, name: str, amount: int) -> None:
        """Add to a counter among the optional fields of the step."""
        extra = self.extra
        if extra is None:
            extra = self.extra = {}
        extra[name] = extra.get(name, 0) + amount

    def say(self, **fields: Any) -> None:
        """Set optional fields of the step."""
        if self.extra is None:
            self.extra = fields
        else:
            self.extra.update(fields)

    def add(self, other: Segment) -> None:
        """Take over the time and counts of a segment that follows directly; this one's time stands where that ends."""
        self.phases.pop(LOOSE, None)
        for name, ns in other.phases.items():
            if name != LOOSE:
                self.phases[name] = self.phases.get(name, 0) + ns
        self.since = other.since
        self.marks += other.marks
        self.batches += other.batches
        self.first |= other.first
        self.work |= other.work
        self.optimizer |= other.optimizer
        if other.samples is not None:
            self.samples = other.samples + (self.samples or 0)
        for name, value in (other.extra or {}).items():
            if name in SUMMED:
                self.count(name, value)
            elif self.extra is None or name not in self.extra:
                self.say(**{name: value})
        for key, (count, ns) in (other.sites or {}).items():
            note_site(self, key, count, ns)
        if other.regions:
            self.regions = (self.regions or []) + other.regions

    def absorb(self, later: Segment) -> None:
        """Go on as the segment that follows directly, its open marks included: the two are one step."""
        self.add(later)
        base = self.top
        if LOOSE in later.phases:
            self.phases[base] = self.phases.get(base, 0) + later.phases[LOOSE]
        later.into = (self, len(self.stack))
        if later.stack:
            self.stack += [base, *later.stack[1:]]
            self.top = later.top
        self.arrived = later.arrived


def note_site(segment: Segment, key: tuple[str, str], count: int, ns: int) -> None:
    """Add reads of device values made at a place: `key` is the file and line, and the call."""
    sites = segment.sites
    if sites is None:
        sites = segment.sites = {}
    known = sites.get(key)
    if known is None:
        sites[key] = [count, ns]
    else:
        known[0] += count
        known[1] += ns


def to_record(segment: Segment, run_id: str, offset_ns: int, *, knows_backward: bool) -> Step:
    """A closed segment as the record that goes out. `offset_ns` turns monotonic times into epoch times."""
    segment.settle()
    source = segment.source
    sites = segment.sites
    dur_ns, phases = segment.end - segment.start, segment.phases
    if dur_ns < 0 or min(phases.values(), default=0) < 0:  # the clock ran backwards
        dur_ns, phases = max(0, dur_ns), {}
    return Step(
        t=segment.start + offset_ns,
        run_id=run_id,
        n=segment.n,
        dur_ns=dur_ns,
        phases_ns=phases,
        batches=segment.batches or None,
        samples=int(segment.samples) if segment.samples is not None else None,
        kind=segment.kind,
        had_backward=segment.work if knows_backward or segment.work else None,
        optimizer_step=segment.optimizer if knows_backward or segment.work else None,
        partial=segment.partial or None,
        loader_id=source.loader_id,
        epoch=source.epoch,
        first_of_epoch=segment.first or None,
        host_cpu_ns=segment.cpu,
        sync_count=sum(count for count, _ in sites.values()) if sites else None,
        sync_ns=sum(ns for _, ns in sites.values()) if sites else None,
        sync_sites=_costliest(sites) if sites else None,
        **(segment.extra or {}),
    )


def _costliest(sites: dict[tuple[str, str], list[int]]) -> list[SyncSite]:
    ranked = sorted(sites.items(), key=lambda item: -item[1][1])[:MAX_SITES]
    return [
        SyncSite(site=site, call=call, count=count, ns=ns, source="patched") for (site, call), (count, ns) in ranked
    ]
