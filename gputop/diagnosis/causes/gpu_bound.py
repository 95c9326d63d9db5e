"""Healthy: the device is the limit. Then the next lever, never as a fault."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.waiting import waited_pct
from gputop.diagnosis.wording import pct, time
from gputop.records import Advice

ID = "gpu-bound"
FAMILY = "device"

LOST_PCT = 10.0
"""Percent of device time lost below which the device is the limit, whatever else looks untidy."""

MOSTLY_LOST_PCT = 25.0
"""Percent lost up to which the device may still be called the limit where no cause stands out."""

UNSEEN_PCT = 20.0
"""Idle time, percent, that the driver saw beyond the lost time, from which device events are not the whole story."""

QUEUED = 0.3
"""Share of boundaries with an empty queue below which the host runs ahead of the device."""

BUSY_UTIL_PCT = 90.0
"""Utilization from which the driver agrees (needed, never enough: a waiting collective reads 100 too)."""

WORKING_POWER = 0.4
"""Share of the power limit below which a "busy" device does little: memory-bound, or spinning. A hint."""

SYNC_PCT = 50.0
"""Percent of the step that the host waits in reads from which, with no figure of the device, it is the limit."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the device is busy nearly all the time."""
    loop, lost, device = facts.loop, facts.lost, facts.device
    if loop is None or lost is None or device.on_gpu is False:
        return None
    total = training_lost(facts)
    if lost.source == "host" and total is None and loop.pct("sync") < SYNC_PCT:
        return None
    if (total is not None and total > MOSTLY_LOST_PCT) or lost.unseen_pct > MOSTLY_LOST_PCT:
        return None
    if lost.source == "nvml" and loop.opaque and not _seconded(facts):
        return None
    case = Case(facts)
    case.at_most("device time lost", total, LOST_PCT, "%", lost.source, 2.0)
    case.at_most("boundaries that found the device's queue empty", lost.queue_empty, QUEUED, "", "device", 2.0)
    if lost.unseen_pct >= UNSEEN_PCT:
        case.at_most("idle time that no phase explains", lost.unseen_pct, UNSEEN_PCT, "%", "driver", 2.0)
    if lost.source == "host" and total is not None:
        case.missing(1.0)
    elif lost.source == "host":
        case.at_least("host waits in reads of device values", loop.pct("sync"), SYNC_PCT, "%", "steps")
        case.missing(2.0)
    if lost.source == "nvml":
        case.at_least("GPU utilization", device.util_pct, BUSY_UTIL_PCT, "%", "driver")
        case.missing(1.0)
    case.at_least("power over its limit", device.power_ratio, WORKING_POWER, "", "driver", 0.5)
    busy = 100 - (total or 0.0)
    if lost.source == "host" and total is not None:
        return _queued(facts, case, busy)
    by = {"device": "by its own clock", "nvml": "as the driver sees it"}.get(lost.source, "as far as host times tell")
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=busy if total is not None else loop.pct("sync"),
        fit=case.fit,
        headline=f"healthy: {device.name} is the limit, busy {pct(busy)} of a {time(loop.mean_ms)} step {by}"
        if total is not None
        else f"the host waits for {device.name} {pct(loop.pct('sync'))} of a {time(loop.mean_ms)} step: the limit",
        evidence=case.evidence,
        advice=_levers(facts),
        healthy=True,
    )


def _seconded(facts: Facts) -> bool:
    """Whether any other reading stands beside a utilization, which alone proves nothing."""
    device, machine = facts.device, facts.machine
    others = (device.power_w, device.mem_pct, device.mem_util_pct, device.clock_ratio, device.sm_active_pct,
              machine.main_pct, machine.process_pct)  # fmt: skip
    return any(figure is not None for figure in others)


def _queued(facts: Facts, case: Case, busy: float) -> Candidate:
    """The device is the limit by its queue alone: how busy it was is not known."""
    loop, lost, name = facts.loop, facts.lost, facts.device.name
    assert loop is not None
    assert lost is not None
    looks = f"only {pct(100 * (lost.queue_empty or 0.0))} of looks found its queue empty"
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=busy,
        fit=case.fit,
        headline=f"healthy: {name} is the limit of a {time(loop.mean_ms)} step: {looks}",
        evidence=case.evidence,
        advice=_levers(facts),
        healthy=True,
    )


def training_lost(facts: Facts) -> float | None:
    """Lost device time as a share of the time that is training, evaluation and checkpoints left out.

    A device that spins in the exchange while other ranks are not there yet does nothing either.
    """
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None or lost.total_pct is None:
        return None
    if lost.source != "device":
        return lost.total_pct
    return min(100.0, 100 * lost.total_pct / max(1e-9, 100 - loop.episodic_pct()) + waited_pct(facts))


def outright(facts: Facts) -> bool:
    """Whether the device is so busy that nothing else is to be accused."""
    total, lost = training_lost(facts), facts.lost
    if total is None or lost is None or facts.device.on_gpu is False or lost.source == "cpu":
        return False
    return total < LOST_PCT and lost.unseen_pct < UNSEEN_PCT and (lost.queue_empty is None or lost.queue_empty < QUEUED)


def _levers(facts: Facts) -> list[Advice]:
    model = facts.window.model
    advice = []
    if model is not None and model.dtypes and set(model.dtypes) <= {"float32", "torch.float32"}:
        if model.autocast is False:
            advice.append(
                Advice(
                    do="next lever: mixed precision",
                    why="all parameters are float32; tensor cores do 16-bit work several times faster",
                    code='with torch.autocast("cuda", dtype=torch.bfloat16):\n    loss = model(batch)',
                )
            )
        if model.matmul_tf32 is False:
            advice.append(
                Advice(
                    do="allow TF32 for matrix products",
                    why="float32 products then use tensor cores",
                    code='torch.set_float32_matmul_precision("high")',
                )
            )
    if model is not None and model.compiled is False:
        advice.append(
            Advice(do="compile the model", why="fuses memory-bound kernels", code="model = torch.compile(model)")
        )
    if not advice:
        advice.append(Advice(do="nothing to mend: a faster device, or fewer operations", why="the device is the limit"))
    return advice
