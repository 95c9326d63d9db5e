"""Another process uses the same GPU."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.wording import pct
from gputop.records import Advice

ID = "gpu-contention"
FAMILY = "device"

NEIGHBOUR_SM_PCT = 10.0
"""SM use by other processes, percent, from which they take the device's time (5 is the least that is told apart)."""

BUSY_PCT = 80.0
"""Utilization of the whole device from which there is nothing left to share."""

FOREIGN_PCT = 30.0
"""Utilization beyond what the run itself can account for, in points, from which someone else makes it."""


def examine(facts: Facts) -> Candidate | None:
    """Whether others compute on the run's device, by the driver's list of processes."""
    device, lost = facts.device, facts.lost
    if facts.loop is None or lost is None or device.on_gpu is False or not device.neighbours:
        return None
    measured = [process.sm_pct for process in device.neighbours if process.sm_pct is not None]
    own_busy = None if lost.source != "device" or lost.total_pct is None else 100 - lost.total_pct
    foreign = max(0.0, device.util_pct - own_busy) if device.util_pct is not None and own_busy is not None else None
    share = min(100.0, sum(measured)) if measured else (foreign or 0.0)
    if share < NEIGHBOUR_SM_PCT:
        return None
    case = Case(facts)
    if measured:
        case.at_least("SM use by other processes", share, NEIGHBOUR_SM_PCT, "%", "driver", 2.0)
    else:
        case.missing(1.0)
        case.at_least("utilization beyond the run's own", foreign, FOREIGN_PCT, "%", "driver", 1.5)
    case.at_least("GPU utilization", device.util_pct, BUSY_PCT, "%", "driver")
    first = device.neighbours[0]
    name = f" ({first.name})" if first.name else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"process {first.pid}{name} computes on the same GPU: others take {pct(share)} of its time",
        evidence=case.evidence,
        advice=_advice(facts),
        estimated=True,
        beside=True,
    )


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
