"""One run's verdict over time: it changes when a new cause has won, not when a figure trembles."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gputop.diagnosis.apart import LONE_RATIO
from gputop.diagnosis.arrivals import Arrival
from gputop.diagnosis.candidate import Candidate
from gputop.diagnosis.causes import idle, stalled, unknown, warmup
from gputop.diagnosis.compose import compose
from gputop.diagnosis.crowd import COME_CORES, Came
from gputop.diagnosis.device import pid_of
from gputop.diagnosis.evidence import Facts, gather
from gputop.diagnosis.loop import Bucket, First, Loop, own_ms
from gputop.diagnosis.weigh import Judgement, weigh
from gputop.pids import Pid
from gputop.records import Verdict
from gputop.view import Segment
from gputop.window import Window

FIRST_NS = 10_000_000_000
"""Time since the run's first known step before which there is no verdict."""

WINS = 3
"""Judgements in a row that a new cause must win."""

NEW_STEPS = 5
"""Steps that must have come since it first won."""

TWICE = 2.0
"""Share of a new cause over that of the cause in force from which it takes over at once."""

MARGIN = 1.25
"""Score of a new cause over that of the cause in force that a win takes: entering is harder than staying."""

REST_NS = 60_000_000_000
"""Time after a change in which a further one needs twice the share."""

SAMPLED_NS = 10_000_000_000
"""Time since a run was met in which the first figures of its processes change what was said without them at once."""

AWAITED_NS = 5_000_000_000
"""Time since a run was met in which figures of its processes are still to come: samplers look twice, a second apart."""

AWAITED = "what its processes do is still to come, and may change this"
"""What is said with a verdict until then."""

ACCIDENTS_NS = 120_000_000_000
"""Time in which a second step that dwarfs all others makes them a pattern: as long as a window may be."""


class Judge:
    """The verdict of one run as time goes on. `awaits`: it may be met while it trains, and its processes be sampled
    only then; what is said of it until they are is tentative."""

    def __init__(self, *, awaits: bool = False) -> None:
        self._awaits = awaits
        self.ledger: tuple[Bucket, ...] = ()
        """The ledger of the latest window."""
        self._segments: list[Segment] = []
        self._gap = False
        self._held: str | None = None
        self._since_ns = 0
        self._met_ns: int | None = None
        self._sampled = False
        self._changed_ns: int | None = None
        self._last: Verdict | None = None
        self._contender: str | None = None
        self._wins = 0
        self._won_at_steps = 0
        self._p99_ms: float | None = None
        self._accidents: dict[int, int] = {}
        self._firsts: dict[int, First] = {}
        self._came: dict[Pid, Arrival] = {}
        self._crowd: Came | None = None

    def update(self, window: Window) -> Verdict:
        """Judge the run's latest window. Windows must come in time order."""
        facts = self._gather(window)
        self.ledger = facts.ledger
        judgement = weigh(facts, self._p99_ms)
        if facts.loop is not None:
            self._p99_ms = facts.loop.p99_ms
        if self._early(window, judgement):
            judgement = Judgement(facts=facts, winner=warmup.starting(facts), confidence=0.0, tentative=True)
        first_sampled = self._first_sampled(window)
        verdict = self._take(window, judgement) if first_sampled else self._settle(window, judgement)
        self._last = verdict
        self._mark(window, verdict.cause)
        return self._with_what_is_awaited(window, verdict)

    def _with_what_is_awaited(self, window: Window, verdict: Verdict) -> Verdict:
        """The verdict, as tentative while figures of the run's processes are still to come."""
        sampled = self._sampled or window.ended or _is_state(verdict.cause)
        if not self._awaits or sampled or self._met_ns is None or window.to_ns - self._met_ns >= AWAITED_NS:
            return verdict
        return msgspec.structs.replace(verdict, tentative=True, notices=[AWAITED, *verdict.notices])

    def _gather(self, window: Window) -> Facts:
        """The facts of a window; a step that dwarfs all others is left out the first time, not when it comes again.

        One that was long for an evaluation or a checkpoint in it is none of its kind.
        """
        facts = self._with_earlier_neighbours(gather(window))
        loop = facts.loop
        if loop is None:
            return facts
        since = window.to_ns - ACCIDENTS_NS
        facts, loop = self._with_earlier_epochs(facts, loop, since)
        self._accidents = {n: t for n, t in self._accidents.items() if t >= since}
        bar = LONE_RATIO * loop.median_ms
        if loop.max_ms >= bar:
            own = own_ms(loop)
            self._accidents |= {step.n: step.t for step, ms in zip(loop.steps, own, strict=True) if ms >= bar}
        if loop.lone is None:
            return facts
        self._accidents[loop.lone[0]] = window.to_ns
        again = _open_ms(window) >= LONE_RATIO * loop.max_ms and not loop.open_eval_ms
        if again or len(self._accidents) > 1:
            more = self._with_earlier_neighbours(gather(window, accidents=True))
            return more if more.loop is None else self._with_earlier_epochs(more, more.loop, since)[0]
        return facts

    def _with_earlier_neighbours(self, facts: Facts) -> Facts:
        """The facts with the neighbours that came before the window, for as long as they stay."""
        self._crowd = facts.crowd or self._crowd
        if self._crowd is not None and facts.crowd is None:
            cores = facts.machine.others_cores
            stay = cores is None or cores >= self._crowd.before_cores + COME_CORES / 2
            self._crowd = self._crowd if stay else None
            facts = msgspec.structs.replace(facts, crowd=self._crowd)
        here = {pid_of(process) for process in facts.device.neighbours}
        if not here:
            self._came = {}
            return facts
        self._came = facts.came | {pid: came for pid, came in self._came.items() if pid in here}
        return facts if self._came == facts.came else msgspec.structs.replace(facts, came=self._came)

    def _with_earlier_epochs(self, facts: Facts, loop: Loop, since_ns: int) -> tuple[Facts, Loop]:
        """The facts with the epochs that began before the window: one may be longer than a window is."""
        self._firsts = {t: first for t, first in self._firsts.items() if t >= since_ns}
        self._firsts |= {first.t: first for first in loop.firsts}
        if len(self._firsts) == len(loop.firsts):
            return facts, loop
        loop = msgspec.structs.replace(loop, firsts=tuple(self._firsts[t] for t in sorted(self._firsts)))
        return msgspec.structs.replace(facts, loop=loop, seen={}), loop

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The stretches under one verdict so far, the last one still open."""
        return tuple(self._segments)

    def resume(self, segments: Sequence[Segment], verdict: Verdict | None = None, *, gap: bool = False) -> None:
        """Go on from what was concluded before: the stretches so far, and the verdict in force where it is to be
        overtaken like any other. `gap`: nothing is known of what lies between the last stretch and the next window.
        Call it before the first `update`."""
        self._segments, self._gap = list(segments), gap
        self._met_ns = segments[0].from_ns if segments else None
        self._sampled = bool(segments)
        if verdict is not None:
            self._held, self._last = verdict.cause, verdict
            self._since_ns = verdict.since_ns if verdict.since_ns is not None else verdict.t

    def backdate(self, since_ns: int) -> None:
        """The cause in force is known to have held since an earlier moment."""
        self._since_ns = min(self._since_ns, since_ns)

    def _early(self, window: Window, judgement: Judgement) -> bool:
        """Whether it is too early to judge: the run has just begun, or was just met and has yet to tell its steps."""
        if self._met_ns is None:
            self._met_ns = window.to_ns
        first = self._met_ns if window.first_t is None else window.first_t
        if judgement.facts.loop is None and window.alive is None and judgement.ranked:
            return False  # no step will come: what the driver and the processes show is all there is
        young = window.to_ns - first < FIRST_NS and not window.ended
        return young and self._held in (None, warmup.ID) and not judgement.winner.state

    def _first_sampled(self, window: Window) -> bool:
        """Whether this window is the first to tell what the run's processes do, of a run that was just met: a cause
        named before, when nobody could tell whose the busy cores are, need not be overtaken."""
        if self._sampled or not any(one.tree_cpu_pct is not None for one in window.process):
            return False
        self._sampled = True
        return self._met_ns is not None and window.to_ns - self._met_ns < SAMPLED_NS

    def _settle(self, window: Window, judgement: Judgement) -> Verdict:
        cause = judgement.winner.cause
        if self._held is None or cause == self._held or _is_state(cause) or _is_state(self._held):
            return self._take(window, judgement)
        held = next((candidate for candidate in judgement.ranked if candidate.cause == self._held), None)
        if self._overtakes(window, judgement, held):
            return self._take(window, judgement)
        if held is not None:
            return compose(judgement, held=held, since_ns=self._since_ns)
        assert self._last is not None
        return msgspec.structs.replace(self._last, t=window.to_ns, tentative=judgement.tentative or None)

    def _take(self, window: Window, judgement: Judgement) -> Verdict:
        cause = judgement.winner.cause
        if cause != self._held:
            if self._held is not None and not _is_state(self._held):
                self._changed_ns = window.to_ns
            self._held, self._since_ns = cause, window.to_ns
        self._contender, self._wins = None, 0
        return compose(judgement, since_ns=self._since_ns)

    def _overtakes(self, window: Window, judgement: Judgement, held: Candidate | None) -> bool:
        new = judgement.winner
        if new.cause != self._contender:
            self._contender, self._wins, self._won_at_steps = new.cause, 0, window.total_steps
        if new.cause == unknown.ID or held is None or new.score >= MARGIN * held.score or new.healthy or held.healthy:
            self._wins += 1
        stale = held is None or held.share_pct * TWICE <= new.share_pct
        if stale and new.cause != unknown.ID and self._wins >= 2:
            return True
        patient = self._wins >= WINS and (
            not window.total_steps or window.total_steps - self._won_at_steps >= NEW_STEPS
        )
        rested = self._changed_ns is None or window.to_ns - self._changed_ns >= REST_NS
        return patient and rested

    def _mark(self, window: Window, cause: str) -> None:
        last = self._segments[-1] if self._segments else None
        start = max(window.from_ns, window.first_t or 0)
        apart, self._gap = last is None or (self._gap and last.to_ns < start), False
        if last is not None and last.cause == cause and not apart:
            self._segments[-1] = Segment(last.from_ns, window.to_ns, cause)
        else:
            self._segments.append(Segment(start if last is None or apart else last.to_ns, window.to_ns, cause))


def _open_ms(window: Window) -> float:
    """How long the step that is not finished has taken, ms; 0 for a run that has ended."""
    if window.ended or window.last_step_end_ns is None:
        return 0.0
    return (window.to_ns - window.last_step_end_ns) / 1e6


def _is_state(cause: str) -> bool:
    """Whether a cause comes and goes at once, without having to win."""
    return cause in (stalled.ID, idle.ID, warmup.ID)
