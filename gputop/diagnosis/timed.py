"""Device figures of every step, where steps have more parts than marks: what was timed changes from step to step.

A phase without figures in a step that spent host time in it was not timed there, which is not zero: it gets what the
steps show that have it. A phase of which a part was timed (`gpu_share`) is scaled to the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop.diagnosis.phases import in_columns
from gputop.records import Step

MIN_SHARE = 0.1
"""Share of a phase from which the timed part speaks for the whole of it."""

NOTHING: dict[str, int] = {}


class Figures(NamedTuple):
    """Device time and measured idle time of each step by phase, in ns; device time in columns too.

    `put_in`: the phases of which most is put in from other steps or from a part.
    """

    device: list[dict[str, int]]
    idle: list[dict[str, int]]
    columns: dict[str, list[float]]
    put_in: frozenset[str] = frozenset()


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


def figures(steps: Sequence[Step]) -> Figures:
    """The figures of each step, made whole where a step has not timed all that others have."""
    device = [step.gpu_ns or NOTHING for step in steps]
    idle = [step.gpu_idle_ns or NOTHING for step in steps]
    shares = [step.gpu_share for step in steps]
    columns = in_columns(device)
    alike = sum(map(len, device)) == len(columns) * len(device)
    if alike and not any(shares):
        return Figures(device, idle, columns)
    for at, share in enumerate(shares):
        if share:
            device[at], idle[at] = _scaled(device[at], share), _scaled(idle[at], share)
    usual: dict[str, _Usual] = {}
    for step, timed, measured in zip(steps, device, idle, strict=True):
        host = step.phases_ns
        for phase, ns in timed.items():
            if (known := usual.get(phase)) is None:
                known = usual[phase] = _Usual()
            known.see(ns, measured.get(phase), host.get(phase, 0))
    put_in: dict[str, int] = {}
    for at, step in enumerate(steps):
        host = step.phases_ns
        timed = device[at]
        missing = [phase for phase in usual if phase not in timed and host.get(phase)]
        if missing:
            device[at], idle[at] = _filled(device[at], idle[at], host, missing, usual)
        for phase in (*missing, *(step.gpu_share or ())):
            put_in[phase] = put_in.get(phase, 0) + 1
    mostly = frozenset(phase for phase, count in put_in.items() if 2 * count > len(steps))
    return Figures(device, idle, in_columns(device), mostly)


def _scaled(times: dict[str, int], shares: dict[str, float]) -> dict[str, int]:
    """Times where a part stands for the whole of its phase."""
    of = {phase: shares.get(phase, 1.0) for phase in times}
    return {phase: round(ns / of[phase]) for phase, ns in times.items() if of[phase] >= MIN_SHARE}


def _filled(
    device: dict[str, int], idle: dict[str, int], host: dict[str, int], missing: list[str], usual: dict[str, _Usual]
) -> tuple[dict[str, int], dict[str, int]]:
    device, idle = dict(device), dict(idle)
    for phase in missing:
        known = usual[phase]
        device[phase] = known.device_ns // known.timed
        ns = known.idle_of(host[phase])
        if ns is not None and phase not in idle:
            idle[phase] = ns
    return device, idle
