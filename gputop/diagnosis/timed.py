"""Device figures of every step, where steps have more parts than marks: what was timed changes from step to step.

A phase without figures in a step that spent host time in it was not timed there, which is not zero: it gets what the
steps show that have it. A phase of which a part was timed (`gpu_share`) is scaled to the whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from gputop.diagnosis.phases import in_columns, where_told
from gputop.records import Step

MIN_SHARE = 0.1
"""Share of a phase from which the timed part speaks for the whole of it."""

NOTHING: dict[str, int] = {}


Column = list[int | None]
"""A phase's times in steps, ns; None in one that does not tell of it."""


class Figures(NamedTuple):
    """Device time and measured idle time by phase. `put_in`: the phases of which most device time is put in from other
    steps or from a part."""

    device: dict[str, Column]
    idle: dict[str, Column]
    put_in: frozenset[str] = frozenset()


def figures(steps: Sequence[Step]) -> Figures:
    """The figures of steps, made whole where one has not timed all that others have."""
    timed = [step.gpu_ns or NOTHING for step in steps]
    measured = [step.gpu_idle_ns or NOTHING for step in steps]
    shares = [step.gpu_share for step in steps]
    put_in: Counter[str] = Counter()
    if any(shares):
        timed = [_scaled(times, share) if share else times for times, share in zip(timed, shares, strict=True)]
        measured = [_scaled(times, share) if share else times for times, share in zip(measured, shares, strict=True)]
        put_in.update(chain.from_iterable(share for share in shares if share))
    device, idle = where_told(timed), where_told(measured)
    if sum(map(len, timed)) < len(device) * len(steps):
        for phase, column in device.items():
            put_in[phase] += _fill(steps, phase, column, idle)
    return Figures(device, idle, frozenset(phase for phase, count in put_in.items() if 2 * count > len(steps)))


def _scaled(times: dict[str, int], shares: dict[str, float]) -> dict[str, int]:
    """Times where a part stands for the whole of its phase."""
    of = {phase: shares.get(phase, 1.0) for phase in times}
    return {phase: round(ns / of[phase]) for phase, ns in times.items() if of[phase] >= MIN_SHARE}


def _fill(steps: Sequence[Step], phase: str, column: Column, idle: dict[str, Column]) -> int:
    """Put in what steps that have timed a phase show, where one spent host time in it; how many it was put in.

    Idle time too, in proportion to the host's, unless some of the timed steps launched work in it.
    """
    host = [step.phases_ns.get(phase, 0) for step in steps]
    missing = [at for at, ns in enumerate(column) if ns is None and host[at]]
    if not missing:
        return 0
    known = [at for at, ns in enumerate(column) if ns is not None]
    usual = sum(column[at] or 0 for at in known) // len(known)
    for at in missing:
        column[at] = usual
    measured = idle.get(phase)
    told = [ns for at in known if (ns := measured[at]) is not None] if measured is not None else []
    of_host = sum(host[at] for at in known)
    if measured is not None and len(told) == len(known) and of_host:
        whole = sum(told)
        for at in missing:
            if measured[at] is None:
                measured[at] = min(host[at], host[at] * whole // of_host)
    return len(missing)


def zeroed(columns: Mapping[str, Column]) -> dict[str, list[float]]:
    """Columns with 0 where a step does not tell of a phase."""
    return {name: [ns or 0 for ns in column] for name, column in columns.items()}


def device_times(steps: Sequence[Step]) -> dict[str, list[float]]:
    """Device time of steps by phase, ns, made whole as `figures` does, 0 where there is none."""
    timed = [step.gpu_ns or NOTHING for step in steps]
    columns, shares = in_columns(timed), [step.gpu_share for step in steps]
    if sum(map(len, timed)) == len(columns) * len(timed) and not any(shares):
        return columns
    return zeroed(figures(steps).device)
