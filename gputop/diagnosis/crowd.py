"""Others that begin to use the machine's cores while a run is watched: how long a step took before, and takes since."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from gputop.diagnosis.loop import MS, Loop
from gputop.diagnosis.numbers import median
from gputop.window import Window

COME_CORES = 0.5
"""Cores more than before that others use from which somebody has come: less is a machine's own to and fro."""

LEAST_SAMPLES = 3
"""Samples of the machine on either side of their coming: one or two may be a start of something that ends at once."""

LEAST_STEPS = 5
"""Steps on either side that the comparison takes at least."""


class Came(NamedTuple):
    """Others' coming: the first sample that shows it (epoch ns), the usual step before (ms), and the cores that others
    used before."""

    t: int
    before_ms: float
    before_cores: float


def came(window: Window, loop: Loop) -> Came | None:
    """The moment since which others use more of the cores; None where there is none in the window.

    All samples since are above all before: a use that rises and falls says nothing of when it began.
    """
    used = _others(window)
    cores = [one for _, one in used]
    if len(cores) < 2 * LEAST_SAMPLES or max(cores) - min(cores) < COME_CORES:
        return None
    most, least = list(accumulate(cores, max)), list(accumulate(reversed(cores), min))[::-1]
    for at in range(LEAST_SAMPLES, len(cores) - LEAST_SAMPLES + 1):
        mean = sum(cores[:at]) / at
        if least[at] <= most[at - 1] or sum(cores[at:]) / (len(cores) - at) - mean < COME_CORES:
            continue
        last_without, first_with = used[at - 1][0], used[at][0]
        usual = _usual([step.dur_ns for step in loop.steps if step.t + step.dur_ns <= last_without])
        if usual is not None:
            return Came(first_with, usual, mean)
    return None


def slower(loop: Loop, since: Came) -> float | None:
    """Step time since the others came over the step time before; None where too few steps have come since."""
    usual = _usual([step.dur_ns for step in loop.steps if step.t >= since.t])
    return None if usual is None else usual / since.before_ms


def _usual(lengths: Sequence[int]) -> float | None:
    usual = median(lengths) if len(lengths) >= LEAST_STEPS else None
    return None if usual is None else usual * MS


def _others(window: Window) -> list[tuple[int, float]]:
    """When the machine and the run's processes were looked at, and how many cores others used then."""
    own = [(one.t, one.tree_cpu_pct) for one in window.process if one.tree_cpu_pct is not None]
    times = [t for t, _ in own]
    found: list[tuple[int, float]] = []
    if not own:
        return found
    for host in window.host:
        at = bisect_right(times, host.t + NEAR_NS) - 1
        if at >= 0 and host.t - times[at] <= NEAR_NS and host.cpu_pct is not None and host.cores:
            found.append((host.t, max(0.0, host.cores * host.cpu_pct - own[at][1]) / 100))
    return found


NEAR_NS = 600_000_000
"""Between a sample of the machine and one of the process that are of the same moment: both come once a second."""
