"""Device figures of every step, where steps have more parts than marks: what was timed changes from step to step.

A phase without figures in a step that spent host time in it was not timed there, which is not zero: it gets what the
steps show that have it. A phase of which a part was timed (`gpu_share`) is scaled to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop.records import Step

MIN_SHARE = 0.1
"""Share of a phase from which the timed part speaks for the whole of it."""

NOTHING: dict[str, int] = {}


class Figures(NamedTuple):
    """Device time and measured idle time of one step by phase, in ns."""

    device: dict[str, int]
    idle: dict[str, int]


class _Usual:
    """What the steps show that have timed a phase."""

    def __init__(self) -> None:
        self.timed = 0
        self.idle = 0
        self.device_ns = 0
        self.idle_ns = 0
        self.idle_host_ns = 0

    def see(self, device_ns: int, idle_ns: int | None, host_ns: int) -> None:
        self.timed += 1
        self.device_ns += device_ns
        if idle_ns is not None:
            self.idle += 1
            self.idle_ns += idle_ns
            self.idle_host_ns += host_ns

    def idle_of(self, host_ns: int) -> int | None:
        """Idle time to be expected of so much host time; None where some of the steps launched work in it."""
        if self.idle < self.timed or not self.idle_host_ns:
            return None
        return min(host_ns, host_ns * self.idle_ns // self.idle_host_ns)


def figures(steps: Sequence[Step]) -> tuple[list[Figures], frozenset[str]]:
    """The figures of each step, and the phases of which most are put in from other steps or from a part."""
    if _alike(steps):
        return [Figures(step.gpu_ns or NOTHING, step.gpu_idle_ns or NOTHING) for step in steps], frozenset()
    found = [_whole(step) for step in steps]
    usual: dict[str, _Usual] = {}
    for step, (device, idle) in zip(steps, found, strict=True):
        for phase, ns in device.items():
            usual.setdefault(phase, _Usual()).see(ns, idle.get(phase), step.phases_ns.get(phase, 0))
    put_in: dict[str, int] = {}
    for at, step in enumerate(steps):
        device = found[at].device
        missing = [phase for phase in usual if phase not in device and step.phases_ns.get(phase)]
        if missing:
            found[at] = _filled(found[at], step, missing, usual)
        for phase in (*missing, *(step.gpu_share or ())):
            put_in[phase] = put_in.get(phase, 0) + 1
    return found, frozenset(phase for phase, count in put_in.items() if 2 * count > len(steps))


def _alike(steps: Sequence[Step]) -> bool:
    """Whether every step has timed the same phases, each as a whole: then nothing is to be put in."""
    first = (steps[0].gpu_ns or NOTHING).keys() if steps else NOTHING.keys()
    return not any(step.gpu_share or (step.gpu_ns or NOTHING).keys() != first for step in steps)


def _whole(step: Step) -> Figures:
    """A step's own figures, where a part stands for the whole of its phase."""
    device, idle = step.gpu_ns or NOTHING, step.gpu_idle_ns or NOTHING
    shares = step.gpu_share
    if not shares:
        return Figures(device, idle)
    return Figures(_scaled(device, shares), _scaled(idle, shares))


def _scaled(times: dict[str, int], shares: dict[str, float]) -> dict[str, int]:
    of = {phase: shares.get(phase, 1.0) for phase in times}
    return {phase: round(ns / of[phase]) for phase, ns in times.items() if of[phase] >= MIN_SHARE}


def _filled(own: Figures, step: Step, missing: list[str], usual: dict[str, _Usual]) -> Figures:
    device, idle = dict(own.device), dict(own.idle)
    for phase in missing:
        known = usual[phase]
        device[phase] = known.device_ns // known.timed
        ns = known.idle_of(step.phases_ns[phase])
        if ns is not None and phase not in idle:
            idle[phase] = ns
    return Figures(device, idle)
