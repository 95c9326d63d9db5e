"""Loader workers are started anew for each epoch."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_wait import loader_code
from gputop.diagnosis.loop import First, Loop
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "input-restart"
FAMILY = "input"

ENTER_PCT = 10.0
"""Percent of wall time lost where epochs end and begin from which it is worth naming."""

LONG_MS = 30.0
"""First wait of an epoch from which worker start-up shows (measured 52 to 158 ms with two workers, 4 ms persistent)."""


COPIED = 0.5
"""Part of what an epoch's first step computes longer than others that goes with the start of workers: the rest is the
making of its first batches beside it, which workers that stay spread over the epoch (by three real loops)."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the first steps of epochs wait much longer for data than the others."""
    loop = facts.loop
    if loop is None or not loop.firsts:
        return None
    usual = loop.ms("data") + _first_batch_ms(facts, loop)
    copies = facts.lost is not None and facts.lost.source == "cpu" and _started_anew(facts)
    costs = [_extra(first, usual, copies=copies) for first in loop.firsts]
    share = 100 * _share(loop, costs, facts.window.to_ns)
    longest = max(first.wait_ms for first in loop.firsts)
    if share < ENTER_PCT / 2 or longest < LONG_MS:
        return None
    loader = facts.loader
    persistent = loader.persistent_workers if loader else None
    case = Case(facts)
    case.at_least("wall time lost where epochs end and begin", share, ENTER_PCT, "%", "steps", 2.0)
    case.at_least("first wait of an epoch", longest, LONG_MS, "ms", "steps")
    if persistent is not None:
        case.weigh("persistent_workers", str(persistent), not persistent, None, "loader", 2.0)
    if loader is not None and loader.num_workers is not None:
        case.at_least("loader workers", float(loader.num_workers), 1, "workers", "loader", 2.0)
    wait = sum(first.wait_ms for first in loop.firsts) / len(loop.firsts)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"each epoch begins with a wait of {time(wait)} for its first batch "
        f"({pct(share)} of the time, {count(len(loop.firsts), 'epoch')} seen): workers are started anew",
        evidence=case.evidence,
        advice=_advice(facts, persistent),
        speedup_limit=speedup(share),
        beside=True,
    )


def _first_batch_ms(facts: Facts, loop: Loop) -> float:
    """What a worker takes for one batch: an epoch's first one is awaited that long, however the workers came up."""
    machine = facts.machine
    if machine.worker_pct is None or not machine.workers:
        return 0.0
    wall = sum(loop.dur) + sum(first.ms for first in loop.firsts)
    return min(100.0, machine.worker_pct) / 100 * machine.workers * wall / (loop.n + len(loop.firsts))


def _started_anew(facts: Facts) -> bool:
    """Whether each epoch starts processes that share the training's memory."""
    loader = facts.loader
    return loader is not None and bool(loader.num_workers) and not loader.persistent_workers


def _share(loop: Loop, costs: Sequence[float], now_ns: int) -> float:
    """Share of wall time in epochs' first waits: over whole epochs where the window holds one."""
    opened, last = loop.firsts[:-1], loop.firsts[-1]
    if opened:
        return sum(costs[:-1]) / ((last.t - opened[0].t) / 1e6)
    wall = max(sum(loop.dur) + last.ms, (now_ns - last.t) / 1e6)
    return costs[-1] / wall


def _extra(first: First, usual_ms: float, *, copies: bool) -> float:
    """What an epoch's beginning costs, ms: its first wait but for a usual one, and the end of the pass before.

    `copies`: the model is in memory that new workers share, so that its first updates copy it.
    """
    return max(0.0, first.wait_ms - usual_ms) + first.before_ms + (COPIED * first.slow_ms if copies else 0.0)


def _advice(facts: Facts, persistent: bool | None) -> list[Advice]:
    longer = Advice(
        do="make epochs longer: repeat the data within one",
        why="the start is paid once an epoch, however short it is",
    )
    if persistent:
        return [longer]
    workers = facts.loader.num_workers if facts.loader else None
    keep = Advice(
        do="keep the workers alive between epochs: persistent_workers=True",
        why="they are then started once for the whole run",
        code=loader_code(facts, num_workers=workers or 4, persistent_workers=True),
    )
    return [keep, longer]
