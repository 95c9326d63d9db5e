"""One slow sample holds up the queue while later batches lie ready."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import LATE_SHARE, RARER, blocked, one_holds_up
from gputop.diagnosis.input_wait import (
    ENTER_PCT,
    FREE_SHARE,
    IDLE_WORKER_PCT,
    InputWait,
    input_wait,
    loader_code,
    waits,
)
from gputop.diagnosis.limits import loader_busy_pct
from gputop.diagnosis.numbers import period
from gputop.records import Advice

ID = "input-slow-sample"
FAMILY = "input"

IRREGULAR = 3.0
"""Long waits over the median one from which single waits stick out."""

RARE_SHARE = 0.2
"""Share of the steps up to which long waits are single ones; with more, the 95th percentile says how long they are."""


PREFETCH = 2
"""Batches that each worker makes ahead, where the loader does not say: PyTorch's own default."""

ABOUT = 0.5
"""Part of the longest waits from which a wait is one for a slow sample: the usual ones vary by a few ms."""

MOST_HIDDEN = 3.0
"""Slow samples for each long wait at most: of more, the waits would follow each other."""


def examine(facts: Facts) -> Candidate | None:
    """Whether waits come from the order of delivery: by the loader's own queue, else by one worker alone at work."""
    wait = input_wait(facts)
    if wait is None:
        return None
    apart = one_holds_up(facts, wait) if wait.late_share is None else None
    if apart is None and (wait.late_share is None or not blocked(facts, wait)):
        return None
    case = Case(facts)
    case.at_least("step time lost waiting for data", wait.lost_pct, ENTER_PCT, "%", "steps")
    if wait.late_share is not None:
        case.at_least("waits with later batches ready", 100 * wait.late_share, 100 * LATE_SHARE, "%", "steps", 3.0)
    else:
        case.at_least("steps for each long wait", apart, RARER * (wait.workers or 1), "steps", "steps", 2.0)
        case.at_most("CPU of each worker", facts.machine.worker_pct, IDLE_WORKER_PCT, "%", "process", 1.5)
        case.missing(1.0)
    form = wait.shape
    longest = form.long_ms if 1 < form.long_steps < RARE_SHARE * (facts.loop.n if facts.loop else 0) else form.p95_ms
    longest = max(longest, form.p95_ms)
    tail = longest / form.median_ms if form.median_ms > 0 else None
    case.at_least("long waits over the median one", tail, IRREGULAR, "x", "steps", 2.0)
    left = [share for share in (wait.room_share, wait.free_share) if share is not None]
    if left and min(left) < FREE_SHARE and not wait.waiting:
        case.at_least("usable cores that are left", 100 * min(left), 100 * FREE_SHARE, "%", "host", 3.0)
    in_order = facts.loader.in_order if facts.loader else None
    if in_order is not None:
        case.weigh("loader keeps the order", str(in_order), in_order, None, "loader")
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=wait.lost_pct,
        fit=case.fit,
        headline=f"{waits(wait)} {_meanwhile(facts, wait)}: single slow samples hold up the queue",
        evidence=case.evidence,
        advice=_advice(facts, in_order),
        speedup_limit=speedup(wait.lost_pct, _floor_pct(facts, wait, longest)),
    )


def _meanwhile(facts: Facts, wait: InputWait) -> str:
    if wait.late_share is not None:
        return f"while later batches lie ready ({100 * wait.late_share:.0f} % of waits)"
    return f"while one worker computes and the others rest ({facts.machine.worker_pct or 0.0:.0f} % CPU on average)"


SEEN = 0.7
"""Part of the slow samples' time for which workers are seen at work from which these are among it: what they only wait
for is not."""


def _floor_pct(facts: Facts, wait: InputWait, longest_ms: float) -> float:
    """What of the step the workers need in any order, percent: all slow samples, shared out among the workers, and what
    they compute besides. Where they are seen at work for as long as that, the slow samples are what they work at.

    Each wait that is about as long as the longest was one such sample, which had begun as many steps before as there
    are batches ahead. At no beat, those among the batches that were made meanwhile show in no wait: the other workers
    have so many before them, one of them half done, and a wait comes in as many batches and then in as many as there
    are from one slow sample to the next.
    """
    loop, workers = facts.loop, wait.workers
    if not workers or loop is None:
        return 0.0
    column = loop.roles["data"]
    held_up = [step.n for step, ms in zip(loop.steps, column, strict=True) if ms >= ABOUT * longest_ms]
    if not held_up:
        return 0.0
    prefetch = (facts.loader.prefetch_factor if facts.loader else None) or PREFETCH
    apart = loop.n / len(held_up)
    begun = (prefetch * workers - 1) * max(0.0, wait.step_ms - wait.wait_ms)
    if period(held_up) is None:
        apart = max(apart - (prefetch - 0.5) * (workers - 1), apart / MOST_HIDDEN)
    slow = 100 * (longest_ms + begun) / apart / workers / wait.step_ms
    at_work = loader_busy_pct(facts) or 0.0
    return min(100.0, at_work if at_work >= SEEN * slow else slow + at_work)


def _advice(facts: Facts, in_order: bool | None) -> list[Advice]:
    advice = []
    if in_order is not False:
        advice.append(
            Advice(
                do="let batches arrive as they are ready",
                why="strict order makes every batch wait for the slowest",
                code=loader_code(facts, in_order=False) + "  # PyTorch 2.6 or newer; the order then varies",
            )
        )
    ahead = facts.loader.prefetch_factor if facts.loader else None
    deeper = 2 * (ahead or 2)
    advice.append(
        Advice(
            do=f"or look further ahead: prefetch_factor {ahead or 2} → {deeper}, and cap or sort samples by cost",
            why="a longer queue rides out a slow sample",
            code=loader_code(facts, prefetch_factor=deeper),
        )
    )
    return advice
