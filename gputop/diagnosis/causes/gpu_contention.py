"""Another process uses the same GPU."""

from __future__ import annotations

from gputop.diagnosis.arrivals import slowed
from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.device import pid_of
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.wording import pct
from gputop.records import Advice, GpuProcess

ID = "gpu-contention"
FAMILY = "device"

NEIGHBOUR_SM_PCT = 10.0
"""SM use by other processes, percent, from which they take the device's time (5 is the least that is told apart)."""

BUSY_PCT = 80.0
"""Utilization of the whole device from which there is nothing left to share."""

FOREIGN_PCT = 30.0
"""Utilization beyond what the run itself can account for, in points, from which someone else makes it."""


SLOWED = 1.25
"""Step time since a neighbour came over the step time before, from which its coming is no coincidence."""


def examine(facts: Facts) -> Candidate | None:
    """Whether others compute on the run's device: by the driver's list of processes, or by when one of them came."""
    device, lost = facts.device, facts.lost
    if facts.loop is None or lost is None or device.on_gpu is False or not device.neighbours:
        return None
    first, slower = _newcomer(facts)
    measured = [process.sm_pct for process in device.neighbours if process.sm_pct is not None]
    own_busy = None if lost.source != "device" or lost.total_pct is None else 100 - lost.total_pct
    foreign = max(0.0, device.util_pct - own_busy) if device.util_pct is not None and own_busy is not None else None
    taken = min(100.0, sum(measured)) if measured else (foreign or 0.0)
    share = taken if slower is None else 100 * (1 - 1 / slower)
    if share < NEIGHBOUR_SM_PCT:
        return None
    case = Case(facts)
    case.at_least("step time since the neighbour came, over before", slower, SLOWED, "x", "steps", 3.0)
    if measured:
        case.at_least("SM use by other processes", taken, NEIGHBOUR_SM_PCT, "%", "driver", 2.0)
    else:
        case.missing(1.0)
        case.at_least("utilization beyond the run's own", foreign, FOREIGN_PCT, "%", "driver", 1.5)
    case.at_least("GPU utilization", device.util_pct, BUSY_PCT, "%", "driver")
    name = f" ({first.name})" if first.name else ""
    who = f"process {first.pid}{name}"
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{who} computes on the same GPU: others take {pct(share)} of its time"
        if slower is None
        else f"since {who} came to the same GPU, a step takes {slower:.1f} times as long ({pct(share)} of it lost)",
        evidence=case.evidence,
        advice=_advice(facts),
        speedup_limit=None if slower is None else round(slower, 2),
        estimated=slower is None,
        beside=True,
    )


def _newcomer(facts: Facts) -> tuple[GpuProcess, float | None]:
    """The neighbour whose coming slowed the steps most, and how much; else the busiest one."""
    assert facts.loop is not None
    best, most = facts.device.neighbours[0], None
    for process in facts.device.neighbours:
        came = facts.came.get(pid_of(process))
        ratio = slowed(facts.loop, came) if came is not None else None
        if ratio is not None and ratio >= max(SLOWED, most or 0.0):
            best, most = process, ratio
    return best, most


def _advice(facts: Facts) -> list[Advice]:
    """Another GPU where there is one that is less used, named by its index; else one after the other."""
    window = facts.window
    own = window.gpu[-1].gpu_uuid if window.gpu else None
    rest = [gpu for gpu in window.all_gpus if gpu.gpu_uuid != own and gpu.gpu_index is not None]
    if not rest:
        return [Advice(do="run one after the other", why="two on one device take turns, and each loses by it")]
    free = min(rest, key=lambda gpu: gpu.util_pct if gpu.util_pct is not None else 100.0)
    return [
        Advice(
            do=f"give each training a GPU of its own: GPU {free.gpu_index} is used the least",
            why="two on one device take turns, and each takes more than twice as long",
            code=f"CUDA_VISIBLE_DEVICES={free.gpu_index} python train.py",
        )
    ]
