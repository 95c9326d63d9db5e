"""Lost device time: which part of a step leaves the device idle, and how that is known.

Three sources, best first. "device": idle time measured by event pairs around regions that launch no work; in regions
that do, the time such a region takes on the device less its shortest in steps entered with work queued. "nvml": host
times of the loop, bounded by the utilization that the driver saw. "host": host times alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gputop.diagnosis.device import Device
from gputop.diagnosis.idle_time import DRAINED, STARVED, read_idle
from gputop.diagnosis.loop import MS, Loop
from gputop.diagnosis.phases import COMPUTE, EPISODIC, HOST, role
from gputop.records import Step

UTIL_SAMPLES = 5
"""Samples of the driver that a window must hold for their mean to count beside the device's own clock."""

COVERED = 0.3
"""Share of the steady steps that must carry device figures for them to speak for the loop."""

LAUNCHING = (*COMPUTE, "sync", "comm", "h2d")
"""Roles in which a step on a GPU works the device or waits for it: idle time not explained elsewhere falls to them."""


SOMETIMES = 0.3
"""Share of looks that found the queue empty from which it runs dry somewhere in every step."""

UNSEEN_PCT = 10.0
"""Idle time, percent, that the driver saw beyond the measured, from which it is looked for in launching phases."""

FOLLOW_HIGH = 1.2
"""Device time over host time of a phase up to which the device does its work launch by launch."""


class Lost(msgspec.Struct, frozen=True, kw_only=True):
    """Lost device time by role, in percent of the step. On a CPU ("cpu") the compute phases are the device's busy time.

    `total_pct` is None where nothing says how busy the device was. `estimated` names the roles that rest on estimates,
    `upper` those of them that are upper bounds. `unseen_pct`: idle time that the driver saw and no phase
    explains. `behind`: roles whose share rests on what the driver saw.
    """

    source: str
    by: dict[str, float]
    total_pct: float | None
    estimated: frozenset[str] = frozenset()
    upper: frozenset[str] = frozenset()
    queue_empty: float | None = None
    device_ms: dict[str, float] = {}
    unseen_pct: float = 0.0
    behind: frozenset[str] = frozenset()

    def pct(self, part: str) -> float:
        """Share of the step in which `part` left the device idle."""
        return self.by.get(part, 0.0)


def read_lost(loop: Loop, device: Device, alike: Sequence[Step] = ()) -> Lost:
    """Lost device time of a loop by the best source there is. `alike`: see `read_idle`."""
    marked = [index for index, step in enumerate(loop.steps) if step.gpu_ns or step.gpu_idle_ns]
    queues = [step.queue_empty for step in loop.steps if step.queue_empty is not None]
    empty = sum(queues) / len(queues) if queues else None
    if marked and len(marked) >= COVERED * loop.n and device.on_gpu is not False:
        return _by_events(loop, marked, empty, device, alike)
    shares = {part: loop.pct(part) for part in loop.roles}
    if device.on_gpu is False:
        by = {part: share for part, share in shares.items() if part not in COMPUTE and part != "comm"}
        return Lost(source="cpu", by=by, total_pct=sum(by.values()))
    if device.util_pct is not None:
        return _by_utilization(shares, device.util_pct, empty)
    return _by_host(shares, empty)


def _by_events(loop: Loop, marked: list[int], empty: float | None, device: Device, alike: Sequence[Step]) -> Lost:
    steps = [loop.steps[index] for index in marked]
    found = read_idle(steps, [loop.dur[index] / MS for index in marked], empty, alike)
    whole = sum(loop.dur[index] for index in marked) / MS
    by = {part: 100 * ns / whole for part, ns in found.idle_ns.items()}
    device_ms = {part: ns * MS / len(steps) for part, ns in found.device_ns.items()}
    copying = max(0.0, 100 * device_ms.get("h2d", 0.0) / loop.mean_ms - by.get("h2d", 0.0))
    unseen = _unseen(loop, device, sum(by.values()) + copying)
    alone = _alone(loop, steps, by, unseen)
    behind = alone | _behind(loop, device_ms, empty, unseen - sum(alone.values()))
    by |= {part: by.get(part, 0.0) + share for part, share in behind.items()}
    if loop.beside and by.get("forward"):
        moved = min(by["forward"], loop.beside * (loop.pct("forward") / (1 - loop.beside)))
        by |= {"forward": by["forward"] - moved, HOST: by.get(HOST, 0.0) + moved}
    training = {part: share for part, share in by.items() if part not in EPISODIC}
    return Lost(
        source="device",
        by=by,
        total_pct=min(100.0, sum(training.values())),
        estimated=found.estimated | frozenset(behind),
        upper=found.upper,
        queue_empty=empty,
        device_ms=device_ms,
        behind=frozenset(behind),
        unseen_pct=max(0.0, unseen - sum(behind.values())),
    )


def _alone(loop: Loop, steps: Sequence[Step], by: dict[str, float], unseen_pct: float) -> dict[str, float]:
    """Idle time that the driver saw and no event pair did, in what the host does beside the model.

    No events stand around it where launches are not counted: it is then measured in no step, and estimated only in
    those that were entered with nothing queued, though one that is long comes to an end of the queue by itself.
    """
    found = min(unseen_pct, loop.pct(HOST) - by.get(HOST, 0.0))
    if loop.opaque or unseen_pct < UNSEEN_PCT or found < UNSEEN_PCT / 2:
        return {}
    told = any(role(phase) == HOST for step in steps for phase in step.gpu_idle_ns or ())
    return {} if told else {HOST: found}


def _behind(loop: Loop, device_ms: dict[str, float], empty: float | None, unseen_pct: float) -> dict[str, float]:
    """Idle time that the driver saw and no event pair did, in phases in which the device follows the host's launches.

    The queue is empty at some boundaries of each step only, as where one phase of many small launches lets it run dry:
    too seldom for every phase to be starved. Or at none, as where the host waits for the device amid a phase, computes,
    and launches the rest.
    """
    if empty is None or empty >= STARVED or unseen_pct < UNSEEN_PCT:
        return {}
    within = loop.ms("sync") if "sync" not in device_ms and _read_amid(loop) else 0.0
    follows = {
        part: ms for part, ms in device_ms.items() if part in COMPUTE and ms <= FOLLOW_HIGH * (loop.ms(part) + within)
    }
    whole = sum(follows.values())
    found = {part: min(unseen_pct * ms / whole, 100 * ms / loop.mean_ms) for part, ms in follows.items()}
    return found if sum(found.values()) >= UNSEEN_PCT / 2 else {}


def _read_amid(loop: Loop) -> bool:
    """Whether device values are read amid the phases, whose time on the device then holds the host's in the reads."""
    counts = [step.sync_count for step in loop.steps if step.sync_count is not None]
    return bool(counts) and sum(counts) > DRAINED * len(counts)


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


def _unseen(loop: Loop, device: Device, explained_pct: float) -> float:
    """Idle time beyond what phases and episodes explain: utilization can only overstate how busy the device was.

    The driver's samples know no steps. So those that are set apart may have been idle altogether.
    """
    if device.util_pct is None or device.samples < UTIL_SAMPLES:
        return 0.0
    steady = sum(loop.dur)
    apart = sum(loop.warmup_ms) + sum(first.ms for first in loop.firsts) + (loop.lone[1] if loop.lone else 0.0)
    idle = ((100 - device.util_pct) * (steady + apart) - 100 * apart) / steady
    return max(0.0, idle - explained_pct - loop.episodic_pct())


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
