"""Idle time of the device by its own clock: measured where events say so, estimated in regions that launch work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import add, and_, gt, mul, sub
from typing import NamedTuple, TypeVar

import msgspec

from gputop.diagnosis.phases import COMPUTE, HOST, role, where_told
from gputop.diagnosis.timed import NOTHING, Column, figures, zeroed
from gputop.records import Step

QUEUED = 0.5
"""A step with `queue_empty` below this was entered with work queued: the device's own time of its regions shows."""

STARVED = 0.8
"""`queue_empty` from which the device always waits for the host, so that a region's whole device time may be idle."""

DRAINED = 2
"""Reads of device values in a step from which its queue is empty over and over, where no look at it was possible."""

WATCHED = (*COMPUTE, "data", HOST)
"""Roles whose idle time is estimated where it was not measured: they launched work, or it was not known whether."""


class Idle(msgspec.Struct, frozen=True):
    """Sums over steps by role, in ns: idle time, and time between the first and last event of a region.

    `estimated` names the roles that rest on estimates, `upper` those of them that are upper bounds.
    """

    idle_ns: dict[str, float]
    device_ns: dict[str, float]
    estimated: frozenset[str]
    upper: frozenset[str]


class _Dry(NamedTuple):
    """Steps that the device had to wait for, and their times in columns: host time by phase, with what is left under
    `other`, device time and measured idle time. `starved`: everything that the device does in them may be idle."""

    steps: Sequence[Step]
    starved: list[bool]
    host: list[tuple[str, Column]]
    device: dict[str, Column]
    measured: dict[str, Column]


class _Found:
    """Idle time by phase in columns, and the roles of which it rests on estimates, or on upper bounds."""

    def __init__(self, spent: dict[str, list[float]]) -> None:
        self.spent = spent
        self.estimated: set[str] = set()
        self.upper: set[str] = set()

    def add(self, phase: str, column: list[float]) -> None:
        """Add to a phase's idle time."""
        before = self.spent.get(phase)
        self.spent[phase] = column if before is None else list(map(add, before, column))


def read_idle(steps: Sequence[Step], lengths: Sequence[float], empty: float | None, alike: Sequence[Step] = ()) -> Idle:
    """Idle time of steps that carry device figures. `empty`: the usual queue_empty, for steps that have none.

    `alike`: further steps, of the same work, that may have been entered with work queued.

    A step's idle time is no longer than the step (`lengths`, ns): what exceeds it is scaled down.
    """
    device, measured, put_in = figures(steps)
    queues = [empty if step.queue_empty is None else step.queue_empty for step in steps]
    dry = [at for at, queue in enumerate(queues) if queue is None or queue >= QUEUED]
    told, host = zeroed(measured), where_told([steps[at].phases_ns for at in dry])
    roles = {phase: role(phase) for phase in sorted({"other", *put_in, *device, *measured, *host})}
    apart, beyond = set(dry), list[int]()
    if any(map(gt, _rows(told), lengths)):
        beyond = [at for at, ns in enumerate(_rows(told)) if ns > lengths[at] and at not in apart]
        apart.update(beyond)
    idle: dict[str, float] = dict.fromkeys(roles.values(), 0.0)
    queued = _picked(told, [at for at in range(len(steps)) if at not in apart]) if apart else told
    for part, ns in _by_role(queued, roles).items():
        idle[part] += ns
    found = _Found({phase: _positive(column) for phase, column in _picked(told, dry).items()})
    if dry:
        rows = _dry(
            [steps[at] for at in dry], [queues[at] for at in dry], host, _picked(device, dry), _picked(measured, dry)
        )
        _estimate(rows, _all_floors(steps, device, alike), roles, found)
        _uncovered(rows, roles, found)
    scaled = {phase: _positive(column) for phase, column in _picked(told, beyond).items()}
    for places, spent in ((dry, found.spent), (beyond, scaled)):
        for phase, column in _within(spent, [lengths[at] for at in places]).items():
            idle[roles[phase]] += sum(column)
    idle = {part: ns for part, ns in idle.items() if ns}
    estimated = found.estimated.union(roles[phase] for phase in put_in)
    return Idle(idle, _by_role(zeroed(device), roles), frozenset(estimated), frozenset(found.upper))


C = TypeVar("C", bound=float | None)


def _picked(columns: Mapping[str, Sequence[C]], places: Sequence[int]) -> dict[str, list[C]]:
    """The columns of the steps at these places, ascending."""
    whole = len(places) == len(next(iter(columns.values()), ()))
    return {name: list(column) if whole else [column[at] for at in places] for name, column in columns.items()}


def _rows(columns: Mapping[str, Sequence[float]]) -> Iterable[float]:
    """What each step has in all columns together."""
    return map(sum, zip(*columns.values(), strict=True))


def _positive(column: Sequence[float]) -> list[float]:
    return [max(0.0, ns) for ns in column] if min(column, default=0) < 0 else list(map(float, column))


def _within(spent: dict[str, list[float]], lengths: Sequence[float]) -> dict[str, list[float]]:
    """Idle times scaled down to what their steps are long."""
    totals = list(_rows(spent))
    if not any(map(gt, totals, lengths)):
        return spent
    scales = [length / ns if ns > length else 1.0 for ns, length in zip(totals, lengths, strict=True)]
    return {phase: list(map(mul, column, scales)) for phase, column in spent.items()}


def _by_role(columns: Mapping[str, Sequence[float]], roles: dict[str, str]) -> dict[str, float]:
    """What the phases of all steps add up to, by role."""
    whole: dict[str, float] = {}
    for phase, column in columns.items():
        ns = sum(column) if min(column, default=0) >= 0 else sum(_positive(column))
        whole[roles[phase]] = whole.get(roles[phase], 0.0) + ns
    return whole


def _all_floors(steps: Sequence[Step], device: dict[str, Column], alike: Sequence[Step]) -> dict[str, int]:
    """Shortest device time of each phase among the steps, and further ones, that were entered with work queued."""
    floors = _floors(steps, device)
    if alike:
        more = _floors(alike, figures(alike).device)
        floors |= {phase: min(ns, floors.get(phase, ns)) for phase, ns in more.items()}
    return floors


def _floors(steps: Sequence[Step], device: dict[str, Column]) -> dict[str, int]:
    """The same among steps alone: of those that have timed a phase themselves."""
    queued = [at for at, step in enumerate(steps) if step.queue_empty is not None and step.queue_empty < QUEUED]
    floors: dict[str, int] = {}
    for phase, column in device.items() if queued else ():
        times = [ns for at in queued if (ns := column[at]) is not None and phase in (steps[at].gpu_ns or NOTHING)]
        if times:
            floors[phase] = min(times)
    return floors


def _dry(
    steps: Sequence[Step],
    queues: Sequence[float | None],
    host: dict[str, Column],
    device: dict[str, Column],
    measured: dict[str, Column],
) -> _Dry:
    starved = [
        (queue or 0.0) >= STARVED or (queue is None and (step.sync_count or 0) >= DRAINED)
        for step, queue in zip(steps, queues, strict=True)
    ]
    marked = zeroed(host)
    left = [step.dur_ns for step in steps]
    for column in marked.values():
        left = list(map(sub, left, column))
    other: Column = [ns if ns > 0 else None for ns in left]
    return _Dry(steps, starved, [*host.items(), ("other", other)], device, measured)


def _estimate(rows: _Dry, floors: dict[str, int], roles: dict[str, str], found: _Found) -> None:
    """Add what the device may have been idle in phases that launched work, where that was not measured."""
    for phase, host in rows.host:
        part, measured = roles[phase], rows.measured.get(phase)
        if part not in WATCHED or (measured is not None and None not in measured):
            continue
        told = [True] * len(host) if None not in host else [ns is not None for ns in host]
        if measured is not None:
            told = [ns is None and known for ns, known in zip(measured, told, strict=True)]
        if not any(told):
            continue
        found.estimated.add(part)
        floor, device = floors.get(phase), rows.device.get(phase)
        if floor is None:
            told = list(map(and_, told, rows.starved))
            if not any(told):
                continue
            found.upper.add(part)
        spans = [ns or 0 for ns in host]
        if device is not None:
            spans = [ns if of is None or of > ns else of for ns, of in zip(spans, device, strict=True)]
        least = floor or 0
        found.add(phase, [float(ns - least) if ns > least and of else 0.0 for ns, of in zip(spans, told, strict=True)])


def _uncovered(rows: _Dry, roles: dict[str, str], found: _Found) -> None:
    """Add the time that no device region covers, in phases that take the host longer than the device.

    Regions follow each other on the device; what is left of the step between them it was idle, unless it was measured.
    """
    marked = dict(rows.host[:-1])
    gaps: dict[str, list[float]] = {}
    for phase, device in rows.device.items():
        if roles[phase] in COMPUTE and phase in marked:
            longer = [
                float(ns - of) if ns is not None and of is not None and ns > of else 0.0
                for ns, of in zip(marked[phase], device, strict=True)
            ]
            if any(longer):
                gaps[phase] = longer
    if not gaps:
        return
    covered, whole = zeroed(rows.device), list(_rows(gaps))
    left = [step.dur_ns - ns for step, ns in zip(rows.steps, _rows(covered), strict=True)]
    silent, measured = _beside(marked, rows.device), _beside(rows.measured, rows.device)
    left = [ns - max(known, quiet) if ns > 0 else 0.0 for ns, known, quiet in zip(left, measured, silent, strict=True)]
    shares = [min(1.0, ns / gap) if ns > 0 and gap else 0.0 for ns, gap in zip(left, whole, strict=True)]
    for phase, gap in gaps.items():
        part = list(map(mul, gap, shares))
        if any(part):
            found.add(phase, part)
            found.upper.add(roles[phase])


def _beside(times: Mapping[str, Column], device: Mapping[str, Column]) -> list[float]:
    """What each step has of these times in phases that it has no device time of."""
    whole = [0.0] * len(next(iter(device.values())))
    for phase, column in times.items():
        covered = device.get(phase)
        if covered is None:
            whole = list(map(add, whole, [ns or 0 for ns in column]))
        elif None in covered:
            alone = [ns or 0 if of is None else 0 for ns, of in zip(column, covered, strict=True)]
            whole = list(map(add, whole, alone))
    return whole
