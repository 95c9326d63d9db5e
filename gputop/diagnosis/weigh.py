"""From facts to one answer: the candidates in order, which of them wins, and how sure that is."""

from __future__ import annotations

import msgspec

from gputop.diagnosis import sampled, stepless
from gputop.diagnosis.candidate import Candidate
from gputop.diagnosis.causes import EXAMINE, evaluation, gpu_bound, stalled, straggler, unknown, warmup
from gputop.diagnosis.critical import of_the_last
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.limits import beside_edges, bounded

MIN_FIT = 0.35
"""Agreement of signals below which a cause is no candidate."""

WIN_PCT = 10.0
"""Percent of device time that a cause must explain on a GPU to be the verdict."""

WIN_CPU_PCT = 25.0
"""The same on a CPU, where a step's own computing is always the larger part (published rules call 25 critical)."""

MIN_CONFIDENCE = 0.4
"""Confidence below which the verdict is `unknown`."""

MOST_SURE = 0.97
"""No verdict is surer than this: what was not measured may always speak against it."""

RIVAL_FIT = 0.6
"""Fit over the winner's below which another cause of the same lost time is no rival: the signals contradict it."""

SAME_TIME = 0.75
"""Of the foremost fault's share what a late rank must explain for the two to be the same time, seen on that rank."""

FIRM_STEPS = 20
"""Steps from which their number no longer lowers the confidence."""

FULL_SPAN_S = 100.0
"""Seconds of steps from which even a few slow ones are a fair sample: a window holds no more than two minutes."""

CLOCK_TRUST = {"device": 1.0, "cpu": 1.0, "nvml": 0.85, "host": 0.75}
"""How far lost device time can be trusted by its source: device events; a CPU's own steps; the driver; host times."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """The winner, its confidence, and all candidates in order of their scores."""

    facts: Facts
    winner: Candidate
    confidence: float
    ranked: tuple[Candidate, ...] = ()
    tentative: bool = False

    @property
    def runner_up(self) -> Candidate | None:
        """The best of the others."""
        return next((candidate for candidate in self.ranked if candidate.cause != self.winner.cause), None)


def weigh(facts: Facts, p99_ms: float | None = None) -> Judgement:
    """Judge the facts. `p99_ms`: the run's usual long step where the window may not hold one."""
    standstill = stalled.examine(facts, p99_ms)
    if standstill is not None:
        return Judgement(facts=facts, winner=standstill, confidence=0.95 * standstill.fit)
    facts = of_the_last(facts)
    loop = facts.loop
    if loop is None:
        return _without_steps(facts)
    if not _enough(facts):
        return _too_few(facts)
    examined = [found for examine in EXAMINE if (found := examine(facts)) is not None and found.fit >= MIN_FIT]
    edges = next((found.share_pct for found in examined if found.cause in APART), 0.0)
    candidates = [beside_edges(bounded(facts, candidate), edges) for candidate in examined]
    candidates.sort(key=lambda candidate: -candidate.score)
    winner = _winner(facts, candidates)
    if winner is None:
        return _undecided(facts, candidates, 0.0)
    candidates = [other for other in candidates if not _refuted(other, winner)]
    confidence = _confidence(facts, winner, candidates)
    if confidence < MIN_CONFIDENCE and not winner.state:
        return _undecided(facts, candidates, confidence)
    ordered = (winner, *(candidate for candidate in candidates if candidate is not winner))
    return Judgement(
        facts=facts, winner=winner, confidence=confidence, ranked=ordered, tentative=loop.seen < FIRM_STEPS
    )


def _enough(facts: Facts) -> bool:
    loop = facts.loop
    return loop is not None and (loop.seen >= warmup.FIRST_STEPS or (loop.seen >= 2 and loop.span_s >= FULL_SPAN_S))


def _without_steps(facts: Facts) -> Judgement:
    """The judgement where no step is known: by the driver and the processes alone, if they tell enough."""
    candidates = stepless.examine(facts)
    large = [
        candidate for candidate in candidates if candidate.healthy or candidate.state or candidate.share_pct >= WIN_PCT
    ]
    winner = next((candidate for candidate in large if candidate.beside), large[0] if large else None)
    if winner is None:
        return _too_few(facts)
    rivals = [other.score for other in candidates if other.cause != winner.cause and not other.healthy]
    ratio = min(1.0, max(rivals, default=0.0) / winner.score) if winner.score else 0.0
    samples = min(1.0, stepless.looks(facts) / stepless.FIRM_SAMPLES)
    confidence = winner.fit * stepless.TRUST * samples * (0.6 + 0.4 * (1 - ratio))
    if confidence < MIN_CONFIDENCE:
        return _undecided(facts, candidates, confidence)
    ordered = (winner, *(candidate for candidate in candidates if candidate is not winner))
    return Judgement(facts=facts, winner=winner, confidence=confidence, ranked=ordered, tentative=samples < 1.0)


def _too_few(facts: Facts) -> Judgement:
    window = facts.window
    alive = window.alive
    young = alive is not None and max(window.total_steps, alive.steps) <= warmup.FIRST_STEPS and not window.ended
    winner = warmup.starting(facts) if young else unknown.examine(facts)
    return Judgement(facts=facts, winner=winner, confidence=0.0, tentative=True)


def _undecided(facts: Facts, candidates: list[Candidate], confidence: float) -> Judgement:
    loop = facts.loop
    return Judgement(
        facts=facts,
        winner=unknown.examine(facts),
        confidence=confidence,
        ranked=tuple(candidates),
        tentative=loop is None or loop.seen < FIRM_STEPS,
    )


def _winner(facts: Facts, candidates: list[Candidate]) -> Candidate | None:
    """The cause to name: certainties and states first; a busy device clears everything but episodes."""
    for candidate in candidates:
        if candidate.state or candidate.certain:
            return candidate
    faults = [candidate for candidate in candidates if not candidate.healthy and _large(facts, candidate)]
    beside = [candidate for candidate in faults if candidate.beside]
    if gpu_bound.outright(facts):
        healthy = next((candidate for candidate in candidates if candidate.cause == gpu_bound.ID), None)
        return _of_one_rank(beside) if beside else healthy
    small = next((candidate for candidate in candidates if candidate.cause == "small-model"), None)
    if small is not None and (not faults or small.score > faults[0].score):
        return small
    if faults:
        return _of_one_rank(faults)
    return next((candidate for candidate in candidates if candidate.healthy and candidate is not small), None)


def _of_one_rank(faults: list[Candidate]) -> Candidate:
    """The foremost fault; a late rank where it explains as much of the time: what makes it late does so there alone."""
    late = next((fault for fault in faults if fault.cause == straggler.ID), None)
    return late if late is not None and late.share_pct >= SAME_TIME * faults[0].share_pct else faults[0]


def _refuted(other: Candidate, winner: Candidate) -> bool:
    """Whether a cause claims the same lost time as the winner, and the signals speak clearly less for it."""
    same = other.family == winner.family == "input" and other.cause not in APART and winner.cause not in APART
    return same and other is not winner and other.fit < RIVAL_FIT * winner.fit


APART = ("input-restart",)
"""Causes of the input family whose lost time is another one: that of epochs' first steps, which come in episodes."""


def _large(facts: Facts, candidate: Candidate) -> bool:
    if candidate.cause == evaluation.ID:
        return candidate.share_pct >= evaluation.ENTER_PCT
    if candidate.family == "episodic" or candidate.cause in APART:
        return candidate.share_pct >= WIN_PCT
    on_cpu = facts.lost is not None and facts.lost.source == "cpu"
    return candidate.share_pct >= (WIN_CPU_PCT if on_cpu else WIN_PCT)


def _confidence(facts: Facts, winner: Candidate, candidates: list[Candidate]) -> float:
    """Ledger coverage x agreement of signals x trust in the clock x enough steps x distance from the runner-up.

    A healthy candidate is no rival: it says what the limit would be without the winner.
    """
    loop, lost = facts.loop, facts.lost
    assert loop is not None
    rivals = [other.score for other in candidates if other is not winner and not _no_rival(other, winner)]
    ratio = min(1.0, max(rivals, default=0.0) / winner.score) if winner.score else 1.0
    if winner.certain or winner.state:
        ratio = 0.0
    steps = min(1.0, max(loop.seen / FIRM_STEPS, loop.span_s / FULL_SPAN_S))
    trust = 1.0 if winner.family in ("episodic", "placement") or lost is None else CLOCK_TRUST[lost.source]
    trust *= sampled.TRUST if sampled.how(facts) else 1.0
    return min(MOST_SURE, coverage(facts) * winner.fit * trust * steps * (0.6 + 0.4 * (1 - ratio)))


def _no_rival(other: Candidate, winner: Candidate) -> bool:
    """Whether a candidate is no other answer: what is in order, or what makes the rank late that others wait for."""
    return other.healthy or (winner.cause == straggler.ID and other.family in LATE_WITH)


LATE_WITH = ("host", "input", "episodic", "transfer", "device")
"""Families of what makes one rank late."""


def coverage(facts: Facts) -> float:
    """How much of the window is known and consistent: missing and contradictory steps lower it."""
    loop = facts.loop
    if loop is None:
        return 0.0
    arrived = loop.seen / (loop.seen + loop.missing)
    consistent = 1 - loop.contradictory / loop.seen
    return arrived * (0.5 + 0.5 * consistent)
