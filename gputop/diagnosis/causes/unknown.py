"""Not enough evidence, or contradictory: says what is missing."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.waiting import waited_pct
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "unknown"
FAMILY = "state"

OTHERS_PCT = 10.0
"""Percent of the step that a rank waits for others from which that is what is said of it."""


def examine(facts: Facts) -> Candidate:
    """The answer where no cause can be named."""
    lacking = missing(facts)
    loop, lost = facts.loop, facts.lost
    if loop is None:
        said = "no training step was seen"
    elif waited_pct(facts) >= OTHERS_PCT:
        said = (
            f"the device waits {pct(waited_pct(facts))} of a {time(loop.mean_ms)} step in the exchange for other "
            "ranks, which take turns in being last: their own verdicts say why"
        )
    elif lost is not None and lost.total_pct is not None and facts.device.on_gpu:
        said = f"the device idles {pct(lost.total_pct)} of a {time(loop.mean_ms)} step, unexplained by what is known"
    else:
        largest = max(facts.ledger, key=lambda share: share.pct)
        said = f"most of a {time(loop.mean_ms)} step is {largest.phase} ({pct(largest.pct)}), no cause by itself"
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=0.0,
        fit=0.0,
        headline=said + (f"; missing: {', '.join(lacking)}" if lacking else ""),
        advice=[Advice(do=f"give gputop {lacking[0]}", why="it would tell the causes apart")] if lacking else [],
        notices=[],
    )


def missing(facts: Facts) -> list[str]:
    """What was not known in the window and would have helped."""
    loop, device, machine = facts.loop, facts.device, facts.machine
    lacking = []
    if loop is None:
        lacking.append("training steps")
    else:
        if loop.seen < 5:
            lacking.append(f"more than {count(loop.seen, 'step')}")
        if loop.opaque:
            lacking.append("marks for forward and backward")
        if facts.lost is not None and facts.lost.source != "device" and device.on_gpu is not False:
            lacking.append("device times of the steps")
    if device.on_gpu is None:
        lacking.append("which device the run computes on")
    if device.on_gpu is not False and device.util_pct is None:
        lacking.append("GPU utilization")
    if machine.cpu_pct is None:
        lacking.append("CPU figures of the machine")
    if facts.loader is None:
        lacking.append("the loader's configuration")
    return lacking
