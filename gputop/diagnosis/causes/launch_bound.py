"""Kernels or batches are too small: the host cannot launch work as fast as the device does it."""

from __future__ import annotations

from gputop.diagnosis.batch_room import larger_batch
from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.copies import least_pct
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.idle_time import STARVED
from gputop.diagnosis.launching import Launching, fused_update, launching
from gputop.diagnosis.limits import device_busy_pct
from gputop.diagnosis.loop import Loop
from gputop.diagnosis.lost import SOMETIMES
from gputop.diagnosis.machine import OPERATORS_PCT, busiest_pct
from gputop.diagnosis.phases import COMPUTE
from gputop.diagnosis.recompiles import recompiles
from gputop.diagnosis.retries import retries
from gputop.diagnosis.wording import pct, time
from gputop.records import Advice

ID = "launch-bound"
FAMILY = "host"

ENTER_PCT = 10.0
"""Percent of the step that the device idles in forward, backward and optimizer from which it is worth naming."""

NOTICE_PCT = 5.0
"""Percent from which it is examined at all."""

FOLLOW_HIGH = 1.2
"""Device time over host time of forward and backward up to which the device follows the host call by call."""

IDLE_UTIL_PCT = 50.0
"""Utilization, percent, below which the driver agrees. Above it proves nothing: any kernel counts as use."""

LOW_POWER = 0.5
"""Share of the power limit below which the device does little, whatever its utilization says."""

RETRYING = 0.1
"""Allocator retries per step from which they, and not the launches, may be what the device waits for."""

LAUNCHING_PCT = 50.0
"""CPU of the training (one core = 100) below which it waits for something rather than launches."""

LONG_STEP_MS = 5_000.0
"""Step time, ms, from which launches hardly fill it: at 20 µs each, that would be a quarter of a million."""

SMALL_MODEL_PARAMS = 10_000_000
"""Parameters from which a model is none of the tiny ones, so that starved launches are a fault of the loop."""

CUDA_GRAPHS = 'model = torch.compile(model, mode="reduce-overhead")'
"""How many small launches become one."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the device waits for the host's launches."""
    idle = launching(facts)
    loop, lost = facts.loop, facts.lost
    if idle is None or loop is None or lost is None:
        return None
    share = _share(idle) - least_pct(facts)
    if share < NOTICE_PCT:
        return None
    if (loop.opaque and lost.queue_empty is None) or (lost.behind and (lost.queue_empty or 0.0) < SOMETIMES):
        return None
    device = facts.device
    case = Case(facts)
    case.at_least("device idle where work is launched", share, ENTER_PCT, "%", lost.source)
    if lost.queue_empty is None:
        case.missing(2.0)
    case.at_least("boundaries that found the device's queue empty", lost.queue_empty, STARVED, "", "device", 2.0)
    if idle.follow is not None:
        case.at_most("device time over host time in forward and backward", idle.follow, FOLLOW_HIGH, "", "device")
    if device.util_pct is not None and device.util_pct <= IDLE_UTIL_PCT:
        case.at_most("GPU utilization", device.util_pct, IDLE_UTIL_PCT, "%", "driver", 0.5)
    case.at_most("power over its limit", device.power_ratio, LOW_POWER, "", "driver", 0.5)
    params = facts.window.model.param_count if facts.window.model else None
    case.at_least("parameters", None if params is None else float(params), SMALL_MODEL_PARAMS, "", "model", 0.75)
    if facts.window.model is not None and facts.window.model.compiled:
        case.weigh("model is compiled", "True", False, None, "model")
    if facts.window.model is not None and facts.window.model.on_cpu:
        case.weigh("found on the CPU", ", ".join(facts.window.model.on_cpu[:3]), False, None, "model", 2.0)
    again = retries(loop)
    if again is not None and again.rate >= RETRYING:
        case.at_most("allocator retries per step", again.rate, RETRYING, "", "steps", 2.0)
    anew = recompiles(facts)
    if anew is not None and (anew.told or (anew.excess_pct or 0.0) >= share / 2):
        case.weigh("steps that compile or meet a new shape", float(anew.count), False, "", "steps", 2.0)
    _weigh_host(facts, case, loop)
    if loop.opaque:
        case.missing(3.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=_headline(facts, idle, share),
        evidence=case.evidence,
        advice=_advice(facts),
        speedup_limit=speedup(share, device_busy_pct(facts, COMPUTE)) if idle.upper else speedup(share),
        estimated=idle.estimated,
        upper=idle.upper,
    )


def _weigh_host(facts: Facts, case: Case, loop: Loop) -> None:
    """What the training's process does meanwhile: launching keeps one thread busy, no more and no less."""
    at_work = busiest_pct(facts.machine)
    if at_work is not None and at_work < LAUNCHING_PCT:
        case.at_least("CPU of the training", at_work, LAUNCHING_PCT, "%", "process", 2.0)
    if at_work is not None and at_work >= OPERATORS_PCT:
        case.at_most("CPU of the training", at_work, OPERATORS_PCT, "%", "process", 2.0)
    if loop.median_ms >= LONG_STEP_MS:
        case.at_most("step time", loop.median_ms, LONG_STEP_MS, "ms", "steps", 2.0)


def _share(idle: Launching) -> float:
    """Idle time that faster launching would spare; without the update's where that is a matter of its own."""
    if idle.update_apart:
        return max(0.0, idle.forward_pct - idle.sync_pct)
    return idle.rest_pct


def _headline(facts: Facts, idle: Launching, share: float) -> str:
    loop, lost = facts.loop, facts.lost
    assert loop is not None
    assert lost is not None
    about = "up to " if idle.upper else "about "
    found = (
        f", its queue empty at {pct(100 * lost.queue_empty)} of looks"
        if lost.queue_empty is not None
        else f" at {facts.device.util_pct:.0f} % utilization"
        if facts.device.util_pct is not None
        else ""
    )
    return (
        f"the host can't launch work fast enough: the device idles {about}{pct(share)} of a "
        f"{time(loop.mean_ms)} step between kernels{found}"
    )


def _advice(facts: Facts) -> list[Advice]:
    model = facts.window.model
    advice = []
    if model is None or not model.compiled:
        advice.append(
            Advice(
                do="compile the model with CUDA graphs",
                why="many small launches become one replay",
                code=CUDA_GRAPHS,
            )
        )
    advice += larger_batch(facts, "each launch then does more work and costs hardly more time")
    if model is not None and model.optimizer_fused is False:
        advice.append(fused_update(model))
    if not advice:
        advice.append(
            Advice(do="profile a few steps to see which launches are small", why="the model is compiled already")
        )
    return advice
