"""Idle time of the device by its own clock: measured where events say so, estimated in regions that launch work."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gputop.diagnosis.phases import COMPUTE, HOST, in_columns, role
from gputop.diagnosis.timed import NOTHING, figures
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


class _Sums:
    """What is gathered step by step."""

    def __init__(self, roles: dict[str, str], floors: dict[str, int]) -> None:
        self.roles = roles
        self.floors = floors
        self.watched = {phase for phase, part in roles.items() if part in WATCHED}
        self.launching = {phase for phase, part in roles.items() if part in COMPUTE}
        self.estimated: set[str] = set()
        self.upper: set[str] = set()


def read_idle(steps: Sequence[Step], lengths: Sequence[float], empty: float | None, alike: Sequence[Step] = ()) -> Idle:
    """Idle time of steps that carry device figures. `empty`: the usual queue_empty, for steps that have none.

    `alike`: further steps, of the same work, that may have been entered with work queued.

    A step's idle time is no longer than the step (`lengths`, ns): what exceeds it is scaled down.
    """
    device, measured, columns, put_in = figures(steps)
    queues = [empty if step.queue_empty is None else step.queue_empty for step in steps]
    spent = list(map(sum, map(dict.values, measured)))
    starving = [queue is None or queue >= QUEUED for queue in queues]
    alone = [at for at, starves in enumerate(starving) if starves or spent[at] > lengths[at]]
    roles = {phase: role(phase) for phase in sorted(_phases(steps))}
    sums = _Sums(roles, _all_floors(steps, device, alike) if any(starving) else {})
    sums.estimated.update(roles[phase] for phase in put_in)
    device_ns = _by_role(columns, roles)
    idle: dict[str, float] = dict.fromkeys(roles.values(), 0.0)
    for at in alone:
        one = {phase: float(ns) for phase, ns in measured[at].items() if ns > 0}
        if starving[at]:
            _estimate(sums, steps[at], device[at], measured[at], one, queues[at])
        total = sum(one.values())
        scale = lengths[at] / total if total > lengths[at] else 1.0
        for phase, idle_ns in one.items():
            idle[roles[phase]] += idle_ns * scale
    if len(alone) < len(steps):
        apart = set(alone)
        queued = [measured[at] for at in range(len(steps)) if at not in apart] if alone else measured
        for part, ns in _by_role(in_columns(queued), roles).items():
            idle[part] += ns
    idle = {part: ns for part, ns in idle.items() if ns}
    return Idle(idle, device_ns, frozenset(sums.estimated), frozenset(sums.upper))


def _by_role(columns: dict[str, list[float]], roles: dict[str, str]) -> dict[str, float]:
    """What the phases of all steps add up to, by role."""
    whole: dict[str, float] = {}
    for phase, column in columns.items():
        ns = sum(column) if min(column) >= 0 else sum(max(0.0, ns) for ns in column)
        whole[roles[phase]] = whole.get(roles[phase], 0.0) + ns
    return whole


def _phases(steps: Sequence[Step]) -> set[str]:
    """Every phase that any of the steps tells of, and what is left."""
    host = [step.phases_ns for step in steps]
    device = [step.gpu_ns or NOTHING for step in steps]
    return {"other"}.union(*host, *device, *(step.gpu_idle_ns or NOTHING for step in steps))


def _all_floors(steps: Sequence[Step], device: Sequence[dict[str, int]], alike: Sequence[Step]) -> dict[str, int]:
    """Shortest device time of each phase among the steps, and further ones, that were entered with work queued."""
    floors = _floors(steps, device)
    if alike:
        more = _floors(alike, figures(alike).device)
        floors |= {phase: min(ns, floors.get(phase, ns)) for phase, ns in more.items()}
    return floors


def _floors(steps: Sequence[Step], found: Sequence[dict[str, int]]) -> dict[str, int]:
    """The same among steps alone."""
    queued = [
        (step.gpu_ns or NOTHING, device)
        for step, device in zip(steps, found, strict=True)
        if step.queue_empty is not None and step.queue_empty < QUEUED
    ]
    floors: dict[str, int] = {}
    for told, device in queued:
        for phase in told:
            ns = device.get(phase)
            if ns is not None and (phase not in floors or ns < floors[phase]):
                floors[phase] = ns
    return floors


def _estimate(
    sums: _Sums,
    step: Step,
    on_device: dict[str, int],
    measured: dict[str, int],
    spent: dict[str, float],
    queue: float | None,
) -> None:
    """Add to `spent` what a step that the device had to wait for may have left it idle, where that was not measured."""
    starved = (queue or 0.0) >= STARVED or (queue is None and (step.sync_count or 0) >= DRAINED)
    host, floors, watched = step.phases_ns, sums.floors, sums.watched
    left = step.dur_ns - sum(host.values())
    for phase, host_ns in (*host.items(), ("other", left)) if left > 0 else host.items():
        if phase in measured or phase not in watched:
            continue
        part = sums.roles[phase]
        device_ns = on_device.get(phase)
        span = host_ns if device_ns is None or device_ns > host_ns else device_ns
        floor = floors.get(phase)
        if floor is not None:
            spent[phase] = spent.get(phase, 0.0) + max(0, span - floor)
        elif starved:
            spent[phase] = spent.get(phase, 0.0) + span
            sums.upper.add(part)
        sums.estimated.add(part)
    if on_device:
        _uncovered(sums, step.dur_ns, host, on_device, measured, spent)


def _uncovered(
    sums: _Sums,
    dur_ns: int,
    host: dict[str, int],
    on_device: dict[str, int],
    idle: dict[str, int],
    spent: dict[str, float],
) -> None:
    """Add the time that no device region covers, in phases that take the host longer than the device.

    Regions follow each other on the device; what is left of the step between them it was idle, unless it was measured.
    """
    left = dur_ns - sum(on_device.values())
    if left <= 0:
        return
    gaps = {
        phase: host[phase] - ns
        for phase, ns in on_device.items()
        if phase in sums.launching and host.get(phase, 0) > ns
    }
    if not gaps:
        return
    measured = sum(ns for phase, ns in idle.items() if phase not in on_device)
    silent = sum(ns for phase, ns in host.items() if phase not in on_device)
    left -= max(measured, silent)
    if left <= 0:
        return
    share = min(1.0, left / sum(gaps.values()))
    for phase, gap in gaps.items():
        spent[phase] = spent.get(phase, 0.0) + share * gap
        sums.upper.add(sums.roles[phase])
