"""No step for long: where each thread stands."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.phases import EPISODIC, role
from gputop.diagnosis.wording import count, time
from gputop.records import Advice, clean

ID = "stalled"
FAMILY = "state"

SILENCE_MS = 30_000.0
"""Time without a step, ms, from which a run may be stalled, however short its steps."""

SILENCE_STEPS = 20.0
"""The same in usual long steps (99th percentile): a run of slow steps is given longer."""


LATEST = 10
"""The window's last steps, of which the one that ended last is the latest activity: loops may overlap."""


def examine(facts: Facts, p99_ms: float | None = None) -> Candidate | None:
    """Whether the run stands still. `p99_ms`: its usual long step, where the window no longer holds any."""
    window = facts.window
    last = _last_activity(facts)
    if window.ended or last is None or (window.total_steps == 0 and facts.loop is None):
        return None
    silent = (window.to_ns - last) / 1e6
    usual = p99_ms if p99_ms is not None else _usual(facts)
    bar = max(SILENCE_MS, SILENCE_STEPS * usual)
    alive = window.alive
    phase = alive.open_phase if alive else None
    if silent < bar or (phase is not None and role(phase) in EPISODIC):
        return None
    case = Case(facts)
    case.at_least("time without a step", silent, bar, "ms", "steps", 2.0)
    if alive is not None:
        case.weigh("process answers", "yes", True, None, "alive", 0.5)
    if phase is not None:
        case.weigh("open phase", phase, True, None, "alive", 0.5)
    where = f" in {phase}" if phase else ""
    frame = clean(alive.stack[0]) if alive is not None and alive.stack else None
    at = f", at {frame}" if frame else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=100.0,
        fit=case.fit,
        headline=f"no step for {time(silent)} (usual steps take up to {time(usual)}): it stands{where}"
        f"{at}{_workers(facts)}",
        evidence=case.evidence,
        advice=[
            Advice(
                do="look where its threads stand",
                why="a lock, a dead worker, a collective that one rank never entered, or a file system that hangs",
                code=f"py-spy dump --pid {window.run.pid}",
            )
        ],
        state=True,
    )


def _last_activity(facts: Facts) -> int | None:
    ends = [step.t + step.dur_ns for step in facts.window.steps[-LATEST:]]
    if facts.window.last_step_end_ns is not None:
        ends.append(facts.window.last_step_end_ns)
    return max(ends, default=None)


def _usual(facts: Facts) -> float:
    """The usual long step: of the window, else the run's mean step as far as its beginning is known."""
    if facts.loop is not None:
        return facts.loop.p99_ms
    window = facts.window
    if window.first_t is not None and window.last_step_end_ns is not None and window.total_steps:
        return (window.last_step_end_ns - window.first_t) / 1e6 / window.total_steps
    return 0.0


def _workers(facts: Facts) -> str:
    process = facts.window.process[-1] if facts.window.process else None
    states = [worker.state for worker in process.workers or () if worker.state] if process else []
    if not states:
        return ""
    asleep = sum(state.startswith(("S", "s")) for state in states)
    return f"; {count(len(states), 'worker')}, {asleep} asleep"
