"""First steps, autotuning, or compiling again for each new input shape."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.loop import Loop
from gputop.diagnosis.phases import COMPUTE, HOST
from gputop.diagnosis.recompiles import NEW_SHAPES, recompiles
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "warmup"
FAMILY = "episodic"

FIRST_STEPS = 5
"""Steps that a verdict needs: fewer are the beginning of a run."""

ENTER_PCT = 10.0
"""Percent of wall time lost in steps that compile or tune from which it is worth naming."""

WARM_SHARE = 0.5
"""Share of the window's wall time in first, slow steps from which the run is still warming up, until
SETTLED_S of later steps are known."""

SETTLED_S = 5.0
"""Seconds of steps after the first, slow ones from which these are told instead (FIRST_STEPS of them at least): a model
that took a minute to compile needs no other minute before its loop can be judged."""

TUNING_MS = 500.0
"""Step time, ms, from which a step that meets a new shape tunes for it: launches alone are seldom as many (reports had
0.6 to 2.3 s for each new shape, 0.02 s for a known one)."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the window is mostly first steps, or steps that compile again."""
    loop = facts.loop
    if loop is None:
        return None
    warm = sum(loop.warmup_ms)
    settled = len(loop.dur) >= FIRST_STEPS and sum(loop.dur) >= 1000 * SETTLED_S
    if warm > WARM_SHARE * (warm + sum(loop.dur)) and not settled:
        return _warming(facts, loop, warm)
    return _recompiling(facts, loop)


def _warming(facts: Facts, loop: Loop, warm: float) -> Candidate:
    case = Case(facts)
    share = 100 * warm / (warm + sum(loop.dur))
    case.at_least("time in the first, slow steps", share, 100 * WARM_SHARE, "%", "steps")
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"warming up: the first {count(len(loop.warmup_ms), 'step')} took {time(warm)}, "
        f"steps now take {time(loop.median_ms)}",
        evidence=case.evidence,
        advice=[Advice(do="wait", why="allocators, autotuning and compilation settle in the first steps")],
        state=True,
    )


def _recompiling(facts: Facts, loop: Loop) -> Candidate | None:
    again = recompiles(facts)
    if again is None:
        return None
    case = Case(facts)
    share = again.excess_pct
    if share is None:
        share = _all_anew(facts, loop)
    if share is None or share < ENTER_PCT / 2:
        return None
    case.at_least("time lost in steps that compile or meet a new shape", share, ENTER_PCT, "%", "steps", 2.0)
    case.at_least("such steps", float(again.count), NEW_SHAPES, "", "steps")
    if again.excess_pct is None:
        case.at_least("step time", loop.median_ms, TUNING_MS, "ms", "steps")
        case.weigh("compilations told of", float(again.told), again.told > 0 or None, "", "events", 1.5)
        case.missing(1.0)
    seen = f" ({again.shapes} shapes so far)" if again.shapes is not None else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"compiling or tuning again for new input shapes{seen}: {count(again.count, 'step')} of {loop.n} "
        f"lose {pct(share)} of the time",
        evidence=case.evidence,
        advice=[
            Advice(
                do="pad or bucket inputs to a few fixed shapes",
                why="each new shape is compiled or autotuned anew",
                code="model = torch.compile(model, dynamic=True)\ntorch.backends.cudnn.benchmark = False",
            )
        ],
        speedup_limit=speedup(share),
        estimated=again.excess_pct is None,
        beside=True,
    )


def _all_anew(facts: Facts, loop: Loop) -> float | None:
    """Where each step meets a new shape, none tells what it takes otherwise: device time lost where work is launched.

    None where that is not known, or where steps are too short for it: variable lengths alone cost nothing.
    """
    again, lost = recompiles(facts), facts.lost
    if again is None or lost is None or lost.total_pct is None or lost.source == "cpu":
        return None
    if not again.told and loop.median_ms < TUNING_MS:
        return None
    return sum(lost.pct(part) for part in (*COMPUTE, HOST))


def starting(facts: Facts) -> Candidate:
    """A run of which too few steps are known for any verdict."""
    window = facts.window
    alive = window.alive
    told = max(window.total_steps, facts.loop.seen if facts.loop else 0)
    steps = max(told, alive.steps if alive else 0)
    doing = f"; now in {alive.open_phase}" if alive is not None and alive.open_phase else ""
    since = None
    if alive is not None and alive.open_since_ns is not None:
        went_on = any(step.t + step.dur_ns > alive.t for step in window.steps)
        since = ((alive.t if went_on else window.to_ns) - alive.open_since_ns) / 1e6
    lasting = f" for {time(since)}" if doing and since is not None and since > 0 else ""
    state = "just met" if steps > FIRST_STEPS and not told else "starting"
    done = "no step yet" if not steps else f"{count(steps, 'step')} so far"
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=0.0,
        fit=1.0,
        headline=f"{state}: {done}{doing}{lasting}; a verdict takes {FIRST_STEPS} steps and 10 s",
        state=True,
    )
