"""Neighbours that start on the run's device: how long a step took before one came, and how long it takes since."""

from __future__ import annotations

from typing import NamedTuple

from gputop.diagnosis.device import Device, pid_of
from gputop.diagnosis.loop import MS, Loop
from gputop.diagnosis.numbers import median
from gputop.pids import Pid
from gputop.window import Window

LEAST_STEPS = 5
"""Steps on either side of an arrival that the comparison takes at least."""


class Arrival(NamedTuple):
    """A neighbour's coming: the first sample that lists it (epoch ns), and the usual step before, ms."""

    t: int
    before_ms: float


def arrivals(window: Window, loop: Loop, device: Device) -> dict[Pid, Arrival]:
    """The neighbours that came to the run's device within the window, after some steps without them."""
    listed = [(gpu.t, {pid_of(one) for one in gpu.processes}) for gpu in window.gpu if gpu.processes is not None]
    found: dict[Pid, Arrival] = {}
    if len(listed) < 2:
        return found
    for neighbour in device.neighbours:
        first = next((at for at, (_, pids) in enumerate(listed) if pid_of(neighbour) in pids), 0)
        if not first:
            continue
        last_without = listed[first - 1][0]
        before = [step.dur_ns * MS for step in loop.steps if step.t + step.dur_ns <= last_without]
        usual = median(before)
        if usual and len(before) >= LEAST_STEPS:
            found[pid_of(neighbour)] = Arrival(listed[first][0], usual)
    return found


def slowed(loop: Loop, arrival: Arrival) -> float | None:
    """Step time since the arrival over the step time before; None where too few steps have come since."""
    since = [step.dur_ns * MS for step in loop.steps if step.t >= arrival.t]
    usual = median(since)
    return usual / arrival.before_ms if usual and len(since) >= LEAST_STEPS else None
