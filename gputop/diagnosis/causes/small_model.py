"""The GPU is larger than the work: nothing is wrong with the loop."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.launching import launching
from gputop.diagnosis.wording import pct, size, time
from gputop.records import Advice

ID = "small-model"
FAMILY = "device"

NOTICE_PCT = 10.0
"""Percent of the step that the device idles where work is launched from which the question arises."""

LOW_MEMORY_PCT = 15.0
"""Device memory in use, percent, below which the work is small for the card."""

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
    case = Case(facts)
    case.at_most("step time", loop.median_ms, SHORT_STEP_MS, "ms", "steps")
    if device.mem_pct is None or device.power_ratio is None:
        case.missing(2.0)
    own = device.mem_pct
    if device.mem_own_bytes is not None and device.mem_total_bytes:
        own = 100 * device.mem_own_bytes / device.mem_total_bytes
    case.at_most("device memory in use", own, LOW_MEMORY_PCT, "%", "driver")
    case.at_most("power over its limit", device.power_ratio, LOW_POWER, "", "driver")
    params = facts.window.model.param_count if facts.window.model else None
    if params is None:
        case.missing(1.0)
    case.at_most("parameters", None if params is None else float(params), TINY_PARAMS, "", "model", 2.0)
    if not idle.upper and lost.device_ms:
        busy = loop.mean_ms * max(0.0, 1 - (lost.total_pct or 0.0) / 100)
        case.at_most("device time of a step", busy, TINY_BUSY_MS, "ms", "device")
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


def _headline(facts: Facts, params: int | None) -> str:
    device, loop = facts.device, facts.loop
    assert loop is not None
    parts = [f"steps of {time(loop.mean_ms)}"]
    if params is not None:
        parts.insert(0, f"{params:,} parameters".replace(",", " "))
    if device.mem_pct is not None:
        parts.append(f"{pct(device.mem_pct)} of its memory")
    if device.power_ratio is not None:
        parts.append(f"{pct(100 * device.power_ratio)} of its power")
    return f"{device.name} is larger than the work, nothing is wrong: {', '.join(parts)}"


def _advice(facts: Facts) -> list[Advice]:
    device, loader = facts.device, facts.loader
    free = None
    if device.mem_total_bytes is not None and device.mem_used_bytes is not None:
        free = size(device.mem_total_bytes - device.mem_used_bytes)
    room = f"{free} of device memory are free" if free else "the card has room"
    batch = loader.batch_size if loader else None
    return [
        Advice(
            do=f"a larger batch (now {batch})" if batch else "a larger batch",
            why=f"{room}; more samples per step cost hardly more time",
        ),
        Advice(
            do="or several runs side by side (MPS, MIG), or a smaller GPU", why="one run alone can't fill this card"
        ),
    ]
