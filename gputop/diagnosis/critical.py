"""The critical path of a job: of each step, the rank that all others waited for.

Where ranks take turns in being last, each sees that it waits in the exchange and not why: its own device is busy
spinning. What holds the job back is what the last one does, step by step.
"""

from __future__ import annotations

import msgspec

from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.loop import Loop, read_loop, train_and_eval
from gputop.diagnosis.lost import read_lost
from gputop.diagnosis.phases import COMPUTE, role
from gputop.diagnosis.ranks import Ranks, ranks
from gputop.diagnosis.waiting import common, kept, waited_pct
from gputop.records import Step

WAITED_PCT = 5.0
"""Percent of the step that this rank waits for others from which its own steps are not the whole story."""


def of_the_last(facts: Facts) -> Facts:
    """The facts as the last rank of each step has them; as they are where this one hardly waits."""
    waited = waited_pct(facts)
    if facts.loop is None or waited < WAITED_PCT:
        return facts
    steps = _last_steps(facts)
    if steps is None:
        return facts
    _, others = train_and_eval(facts.window.steps)
    window = msgspec.structs.replace(facts.window, steps=(*others, *steps))
    loop = read_loop(window, accidents=facts.loop.lone is None)
    if loop is None:
        return facts
    loop = _with_edges(loop, facts.loop)
    util = facts.device.util_pct
    device = msgspec.structs.replace(facts.device, util_pct=None if util is None else max(0.0, util - waited))
    return msgspec.structs.replace(
        facts, window=window, loop=loop, device=device, lost=read_lost(loop, device, facts.loop.steps), last=True,
        seen={name: found for name, found in facts.seen.items() if name == KEPT},
    )  # fmt: skip


KEPT = f"{ranks.__module__}.{ranks.__qualname__}"
"""What was read of all ranks' own steps holds still."""


def _last_steps(facts: Facts) -> list[Step] | None:
    """Each step as the rank had it that waited least, one after the other; None where that is not known.

    What an allocator has counted so far stays this rank's.
    """
    sides, run = ranks(facts), facts.window.run
    mine = next((side.steps for side in sides if side.rank == run.rank), {})
    lasts = kept(sides, "last of each step", _lasts)
    if not lasts:
        return None
    found: list[Step] = []
    for n, step in lasts.items():
        t = found[-1].t + found[-1].dur_ns if found else step.t
        found.append(
            msgspec.structs.replace(
                step,
                t=t,
                run_id=run.run_id,
                first_of_epoch=None,
                alloc_retries=mine[n].alloc_retries if n in mine else None,
            )
        )
    return found


def _lasts(sides: Ranks) -> dict[int, Step]:
    """The step of whichever rank waited least, by its number; together they take as long as any rank's own steps.

    One after the other they seem to take longer, where ranks take turns: a host that comes late in one step had waited
    for its device in the one before, while it launched that one's work. So much is taken off that time; and where it
    is no more than that, of all of the step: the host waited for a batch while its device was still at work.
    """
    numbers = common(sides)
    lasts = {n: min(sides, key=lambda side: side.waits[n]).steps[n] for n in numbers}
    took = sum(step.dur_ns for step in lasts.values())
    more = took - sum(side.steps[n].dur_ns for side in sides for n in numbers) / len(sides)
    waiting = sum(ns for step in lasts.values() for name, ns in step.phases_ns.items() if role(name) in COMPUTE)
    if more <= OVERLAP * took or not waiting:
        return lasts
    cut = min(more, waiting)
    return {n: _shorter(step, 1 - cut / waiting, (took - more) / (took - cut)) for n, step in lasts.items()}


OVERLAP = 0.02
"""Part of the last ranks' steps by which they may seem longer than the job's: less is jitter."""


def _shorter(step: Step, launching: float, all_: float) -> Step:
    """The step with so much left of the host's time in which work was launched, and then of all of its time."""
    parts = {name: ns * launching if role(name) in COMPUTE else ns for name, ns in step.phases_ns.items()}
    dur_ns = step.dur_ns - sum(step.phases_ns.values()) + sum(parts.values())
    phases = {name: round(ns * all_) for name, ns in parts.items()}
    return msgspec.structs.replace(step, phases_ns=phases, dur_ns=max(1, round(dur_ns * all_)))


def _with_edges(loop: Loop, own: Loop) -> Loop:
    """The loop with what is set apart in this rank's own: epochs begin on all ranks alike."""
    return msgspec.structs.replace(loop, firsts=own.firsts, warmup_ms=own.warmup_ms, lone=own.lone, seen=own.seen)
