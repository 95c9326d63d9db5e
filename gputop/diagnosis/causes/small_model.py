"""The GPU is larger than the work: nothing is wrong with the loop."""

from __future__ import annotations

from gputop.diagnosis.batch_room import larger_batch
from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.device import reserves
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.launching import launching
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "small-model"
FAMILY = "device"

NOTICE_PCT = 10.0
"""Percent of the step that the device idles where work is launched from which the question arises."""

LOW_MEMORY_PCT = 15.0
"""Device memory in use, percent, below which the work is small for the card."""

FULL_MEMORY_PCT = 85.0
"""Device memory that the run itself uses, percent, from which the work is not small for the card, whatever else is."""

LOW_POWER = 0.35
"""Share of the power limit below which the card hardly works."""

SHORT_STEP_MS = 20.0
"""Step time, ms, below which a step is mostly fixed cost."""

TINY_BUSY_MS = 2.0
"""Device time of a step, ms, below which any card of this kind is idle most of the time."""

SURE_FIT = 0.45
"""Agreement of the signals below which nothing is said: "nothing is wrong" needs more than one of them."""

TINY_PARAMS = 2_000_000
"""Parameters up to which a model is tiny."""


def examine(facts: Facts) -> Candidate | None:
    """Whether memory, power, step time and parameters all say that the model is small for the card."""
    idle = launching(facts)
    loop, lost, device = facts.loop, facts.lost, facts.device
    if idle is None or loop is None or lost is None or idle.rest_pct < NOTICE_PCT:
        return None
    own = _own_memory_pct(facts)
    if own is not None and own >= FULL_MEMORY_PCT:
        return None
    case = Case(facts)
    case.at_most("step time", loop.median_ms, SHORT_STEP_MS, "ms", "steps")
    if device.mem_pct is None or device.power_ratio is None:
        case.missing(2.0)
    case.at_most("device memory in use", own, LOW_MEMORY_PCT, "%", "driver")
    case.at_most("power over its limit", device.power_ratio, LOW_POWER, "", "driver")
    params = facts.window.model.param_count if facts.window.model else None
    if params is None:
        case.missing(1.0)
    case.at_most("parameters", None if params is None else float(params), TINY_PARAMS, "", "model", 2.0)
    if not idle.upper and lost.device_ms:
        busy = loop.mean_ms * max(0.0, 1 - (lost.total_pct or 0.0) / 100)
        case.at_most("device time of a step", busy, TINY_BUSY_MS, "ms", "device")
    elif lost.source == "nvml" and device.util_pct is not None:
        at_most = loop.mean_ms * device.util_pct / 100
        case.at_most("device time of a step, by its utilization", at_most, TINY_BUSY_MS, "ms", "driver")
    if (device.mem_pct is None and params is None) or case.fit < SURE_FIT:
        return None
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=idle.rest_pct,
        fit=case.fit,
        headline=_headline(facts, params),
        evidence=case.evidence,
        advice=_advice(facts),
        estimated=idle.estimated,
        healthy=True,
    )


def _own_memory_pct(facts: Facts) -> float | None:
    """Device memory that the run itself uses, percent: by the allocator, by the driver's list, else all in use.

    None where the framework reserves all of it from the start, so that nothing says what is used.
    """
    device, loop = facts.device, facts.loop
    held = [step.mem_reserved_bytes for step in loop.steps if step.mem_reserved_bytes] if loop is not None else []
    if held and device.mem_total_bytes:
        return 100 * max(held) / device.mem_total_bytes
    if reserves(facts.window.run):
        return None
    if device.mem_own_bytes is not None and device.mem_total_bytes:
        return 100 * device.mem_own_bytes / device.mem_total_bytes
    return device.mem_pct


def _headline(facts: Facts, params: int | None) -> str:
    device, loop = facts.device, facts.loop
    assert loop is not None
    parts = [f"steps of {time(loop.mean_ms)}"]
    if params is not None:
        parts.insert(0, count(params, "parameter"))
    if device.mem_pct is not None:
        parts.append(f"{pct(device.mem_pct)} of its memory")
    if device.power_ratio is not None:
        parts.append(f"{pct(100 * device.power_ratio)} of its power")
    return f"{device.name} is larger than the work, nothing is wrong: {', '.join(parts)}"


def _advice(facts: Facts) -> list[Advice]:
    return [
        *larger_batch(facts, "more samples per step cost hardly more time"),
        Advice(
            do="or several runs side by side (MPS, MIG), or a smaller GPU", why="one run alone can't fill this card"
        ),
    ]
