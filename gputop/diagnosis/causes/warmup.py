"""First steps, autotuning, or compiling again for each new input shape."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.loop import Loop
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "warmup"
FAMILY = "episodic"

FIRST_STEPS = 5
"""Steps that a verdict needs: fewer are the beginning of a run."""

ENTER_PCT = 10.0
"""Percent of wall time lost in steps that compile or tune from which it is worth naming."""

WARM_SHARE = 0.5
"""Share of the window's wall time in first, slow steps from which the run is still warming up."""

NEW_SHAPES = 3
"""Steps with a new input shape, or recompilations, from which they are a pattern."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the window is mostly first steps, or steps that compile again."""
    loop = facts.loop
    if loop is None:
        return None
    warm = sum(loop.warmup_ms)
    if warm > WARM_SHARE * (warm + sum(loop.dur)):
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
    shapes = [step.shapes for step in loop.steps]
    fresh = {
        index
        for index in range(1, loop.n)
        if shapes[index] is not None and shapes[index - 1] is not None and shapes[index] != shapes[index - 1]
    }
    compiles = [event.t for event in facts.window.events if event.kind == "recompile"]
    for t in compiles:
        fresh |= {index for index, step in enumerate(loop.steps) if step.t <= t < step.t + step.dur_ns}
    if max(len(fresh), len(compiles)) < NEW_SHAPES:
        return None
    extra = sum(max(0.0, loop.dur[index] - _ordinary(loop, fresh)) for index in fresh)
    share = 100 * extra / sum(loop.dur)
    if share < ENTER_PCT / 2:
        return None
    latest = next((number for number in reversed(shapes) if number is not None), None)
    case = Case(facts)
    case.at_least("time lost in steps that compile or meet a new shape", share, ENTER_PCT, "%", "steps", 2.0)
    case.at_least("such steps", float(len(fresh)), NEW_SHAPES, "", "steps")
    seen = f" ({latest} shapes so far)" if latest is not None else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"compiling or tuning again for new input shapes{seen}: {count(len(fresh), 'step')} of {loop.n} "
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
        beside=True,
    )


def _ordinary(loop: Loop, fresh: set[int]) -> float:
    """Median time of the other steps, or the shortest step where all are new."""
    others = sorted(loop.dur[index] for index in range(loop.n) if index not in fresh)
    return others[len(others) // 2] if others else min(loop.dur)


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
