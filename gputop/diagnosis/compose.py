"""From a judgement to the verdict's record."""

from __future__ import annotations

from gputop.diagnosis import sampled
from gputop.diagnosis.candidate import Candidate
from gputop.diagnosis.notices import notices
from gputop.diagnosis.weigh import Judgement
from gputop.records import RunnerUp, Verdict

CLOCKS = {"device": "device", "nvml": "host", "host": "host", "cpu": "host"}
"""The clock that a verdict's shares were read from, by the source of lost time."""


def compose(judgement: Judgement, *, held: Candidate | None = None, since_ns: int | None = None) -> Verdict:
    """The verdict of a judgement. `held`: the cause in force where it is another one than the winner of the moment."""
    facts, named = judgement.facts, held or judgement.winner
    other = next((candidate for candidate in judgement.ranked if candidate.cause != named.cause), None)
    return Verdict(
        t=facts.window.to_ns,
        run_id=facts.window.run.run_id,
        cause=named.cause,
        family=named.family,
        headline=sampled.worded(facts, named.headline),
        confidence=round(judgement.confidence, 3),
        share_pct=round(min(100.0, named.share_pct), 1) if named.share_pct else None,
        speedup_limit=named.speedup_limit,
        evidence=named.evidence,
        advice=named.advice,
        runner_up=_runner_up(named, other) if other else None,
        since_ns=since_ns,
        clock=_clock(judgement, named),
        tentative=judgement.tentative or None,
        simulated=True if facts.device.simulated else None,
        notices=notices(judgement),
    )


def _clock(judgement: Judgement, named: Candidate) -> str | None:
    facts = judgement.facts
    if sampled.how(facts) or (facts.loop is None and named.evidence and not named.state):
        return sampled.CLOCK
    return CLOCKS[facts.lost.source] if facts.lost else None


def _runner_up(named: Candidate, other: Candidate) -> RunnerUp:
    """The second cause and what it explains: of the same lost time as far as it fits, of its own in full.

    What is in order takes what the named cause leaves.
    """
    share = other.share_pct
    if other.healthy and not named.healthy:
        share = min(share, max(0.0, 100 - named.share_pct))
    elif other.family == named.family and named.fit:
        share *= min(1.0, other.fit / named.fit)
    return RunnerUp(cause=other.cause, share_pct=round(min(100.0, share), 1))
