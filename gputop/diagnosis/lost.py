"""Lost device time: which part of a step leaves the device idle, and how that is known.

Three sources, best first. "device": idle time measured by event pairs around regions that launch no work; in regions
that do, the time such a region takes on the device less its shortest in steps entered with work queued. "nvml": host
times of the loop, bounded by the utilization that the driver saw. "host": host times alone.
"""

from __future__ import annotations

import msgspec

from gputop.diagnosis.device import Device
from gputop.diagnosis.loop import MS, Loop
from gputop.diagnosis.phases import COMPUTE, EPISODIC, HOST, role
from gputop.records import Step

QUEUED = 0.5
"""A step with `queue_empty` below this was entered with work queued: the device's own time of its regions shows."""

STARVED = 0.8
"""`queue_empty` from which the device always waits for the host, so that a region's whole device time may be idle."""

DRAINED = 2
"""Reads of device values in a step from which its queue is empty over and over, where no look at it was possible."""

UTIL_SAMPLES = 5
"""Samples of the driver that a window must hold for their mean to count beside the device's own clock."""

COVERED = 0.3
"""Share of the steady steps that must carry device figures for them to speak for the loop."""

LAUNCHING = (*COMPUTE, "sync", "comm", "h2d")
"""Roles in which a step on a GPU works the device or waits for it: idle time not explained elsewhere falls to them."""


WATCHED = (*COMPUTE, "data", HOST)
"""Roles whose idle time is estimated where it was not measured: they launched work, or it was not known whether."""


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """Lost device time by role, in percent of the step. On a CPU ("cpu") the compute phases are the device's busy time.

    `total_pct` is None where nothing says how busy the device was. `estimated` names the roles that rest on estimates,
    `upper` those of them that are upper bounds. `unseen_pct`: idle time that the driver saw and no phase
    explains.
    """

    source: str
    by: dict[str, float]
    total_pct: float | None
    estimated: frozenset[str] = frozenset()
    upper: frozenset[str] = frozenset()
    queue_empty: float | None = None
    device_ms: dict[str, float] = {}
    unseen_pct: float = 0.0

    def pct(self, part: str) -> float:
        """Share of the step in which `part` left the device idle."""
        return self.by.get(part, 0.0)


def read_lost(loop: Loop, device: Device) -> Lost:
    """Lost device time of a loop by the best source there is."""
    marked = [index for index, step in enumerate(loop.steps) if step.gpu_ns or step.gpu_idle_ns]
    queues = [step.queue_empty for step in loop.steps if step.queue_empty is not None]
    empty = sum(queues) / len(queues) if queues else None
    if marked and len(marked) >= COVERED * loop.n and device.on_gpu is not False:
        return _by_events(loop, marked, empty, device)
    shares = {part: loop.pct(part) for part in loop.roles}
    if device.on_gpu is False:
        by = {part: share for part, share in shares.items() if part not in COMPUTE and part != "comm"}
        return Lost(source="cpu", by=by, total_pct=sum(by.values()))
    if device.util_pct is not None:
        return _by_utilization(shares, device.util_pct, empty)
    return _by_host(shares, empty)


def _by_events(loop: Loop, marked: list[int], empty: float | None, device: Device) -> Lost:
    steps = [loop.steps[index] for index in marked]
    whole = sum(loop.dur[index] for index in marked)
    idle: dict[str, float] = {}
    device_ms: dict[str, float] = {}
    estimated: set[str] = set()
    upper: set[str] = set()
    floors = _floors(steps)
    for index, step in zip(marked, steps, strict=True):
        queue = step.queue_empty if step.queue_empty is not None else empty
        spent: dict[str, float] = {}
        for phase, ns in (step.gpu_idle_ns or {}).items():
            part = role(phase)
            spent[part] = spent.get(part, 0.0) + max(0, ns) * MS
        for phase, ns in (step.gpu_ns or {}).items():
            device_ms[role(phase)] = device_ms.get(role(phase), 0.0) + ns * MS
        left = max(0, step.dur_ns - sum(step.phases_ns.values()))
        for phase, host_ns in (*step.phases_ns.items(), ("other", left)):
            part = role(phase)
            if phase in (step.gpu_idle_ns or {}) or part not in WATCHED:
                continue
            on_device = (step.gpu_ns or {}).get(phase)
            span = host_ns if on_device is None else min(host_ns, on_device)
            floor = floors.get(phase)
            if queue is not None and queue < QUEUED:
                continue
            if floor is not None:
                spent[part] = spent.get(part, 0.0) + max(0.0, span - floor) * MS
            elif (queue or 0.0) >= STARVED or (queue is None and (step.sync_count or 0) >= DRAINED):
                spent[part] = spent.get(part, 0.0) + span * MS
                upper.add(part)
            estimated.add(part)
        if queue is None or queue >= QUEUED:
            _uncovered(step, spent, upper)
        scale = min(1.0, loop.dur[index] / sum(spent.values())) if any(spent.values()) else 1.0
        for part, ms in spent.items():
            idle[part] = idle.get(part, 0.0) + ms * scale
    by = {part: 100 * ms / whole for part, ms in idle.items()}
    training = {part: share for part, share in by.items() if part not in EPISODIC}
    return Lost(
        source="device",
        by=by,
        total_pct=min(100.0, sum(training.values())),
        estimated=frozenset(estimated),
        upper=frozenset(upper),
        queue_empty=empty,
        device_ms={part: ms / len(steps) for part, ms in device_ms.items()},
        unseen_pct=_unseen(device, sum(by.values()), loop.episodic_pct()),
    )


def _uncovered(step: Step, spent: dict[str, float], upper: set[str]) -> None:
    """Add the time that no device region covers, in phases that take the host longer than the device.

    Regions follow each other on the device; what is left of the step between them it was idle, unless it was measured.
    """
    on_device = step.gpu_ns or {}
    gaps = {
        phase: host_ns - on_device[phase]
        for phase, host_ns in step.phases_ns.items()
        if phase in on_device and role(phase) in COMPUTE and host_ns > on_device[phase]
    }
    measured = sum(max(0, ns) for phase, ns in (step.gpu_idle_ns or {}).items() if phase not in on_device)
    silent = sum(ns for phase, ns in step.phases_ns.items() if phase not in on_device)
    left = step.dur_ns - sum(on_device.values()) - max(measured, silent)
    whole = sum(gaps.values())
    if left <= 0 or not whole:
        return
    for phase, gap in gaps.items():
        part = role(phase)
        spent[part] = spent.get(part, 0.0) + min(1.0, left / whole) * gap * MS
        upper.add(part)


def _by_host(shares: dict[str, float], empty: float | None) -> Lost:
    """Host times as they are; where the queue was looked at, as far as it was found empty.

    A queue that is always empty says that every host phase leaves the device idle, those that launch work too, up to
    their whole length; one that never is says that none does.
    """
    by = {part: share for part, share in shares.items() if part not in LAUNCHING and part not in EPISODIC}
    if empty is None:
        return Lost(source="host", by=by, total_pct=None)
    starved = min(1.0, empty / STARVED)
    by = {part: share * starved for part, share in by.items()}
    upper: set[str] = set()
    if empty >= STARVED:
        upper = {part for part in COMPUTE if shares.get(part)}
        by |= {part: shares[part] * empty for part in upper}
    return Lost(
        source="host",
        by=by,
        total_pct=min(100.0, sum(by.values())),
        estimated=frozenset(by),
        upper=frozenset(upper),
        queue_empty=empty,
    )


def _unseen(device: Device, explained_pct: float, episodic_pct: float) -> float:
    """Idle time beyond what phases and episodes explain: utilization can only overstate how busy the device was."""
    if device.util_pct is None or device.samples < UTIL_SAMPLES:
        return 0.0
    return max(0.0, 100 - device.util_pct - explained_pct - episodic_pct)


def _floors(steps: list[Step]) -> dict[str, int]:
    """Shortest device time of each phase among the steps that were entered with work queued."""
    floors: dict[str, int] = {}
    for step in steps:
        if step.gpu_ns and step.queue_empty is not None and step.queue_empty < QUEUED:
            for phase, ns in step.gpu_ns.items():
                floors[phase] = min(ns, floors.get(phase, ns))
    return floors


def _by_utilization(shares: dict[str, float], util_pct: float, empty: float | None) -> Lost:
    """Share out the idle time that the driver saw: first to regions that work no device, the rest to those that do.

    A utilization counts any kernel, so it can only overstate how busy the device was; idle time is thus a lower bound.
    """
    left = max(0.0, 100.0 - util_pct)
    total = left
    by: dict[str, float] = {}
    for part in ("data", HOST, "self", *EPISODIC):
        by[part] = min(left, shares.get(part, 0.0))
        left -= by[part]
    launching = {part: shares[part] for part in LAUNCHING if shares.get(part)}
    whole = sum(launching.values())
    for part, share in launching.items():
        by[part] = left * share / whole
    return Lost(
        source="nvml",
        by=by,
        total_pct=total,
        estimated=frozenset(by),
        queue_empty=empty,
    )
