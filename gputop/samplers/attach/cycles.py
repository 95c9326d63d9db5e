"""From a thread's phases over time to steps, where they can be told apart, and to stretches of time where they can't.

A step begins with the first data (or forward) after the backward or optimizer of the one before. What lies between the
batch's arrival and the backward is forward, whatever function it is in, as in a step that the publisher measures.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gputop.records import Step
from gputop.samplers.attach.classes import OTHER
from gputop.samplers.protocol import S

BEGIN = frozenset({"data", "h2d", "forward"})
UPDATE = frozenset({"backward", "optimizer"})

RESOLVED = 6.0
RESOLVED_UPDATE = 1.5
"""Samples in a usual step, and in its backward and optimizer, from which steps are told apart: no update is then
missed. In shorter ones some are, and two steps would be taken for one."""

STRETCH_NS = S
PATIENCE_NS = 30 * S
"""Time without a whole step after which the loop is one that none will be seen of: only shares of time are told."""

FIRST = 100
"""The number of the first one seen: the run's own first steps, which are slow, were before anyone looked."""

TORN = 5
"""Samples missing in a row from which something is torn there."""

LONG_NS = S
"""A step from this length on is kept though the pause between two runs of py-spy fell into it."""

GAP_NS = S // 2
"""Time without a sample after which what was open is given up: sampling stood still."""


class Span(NamedTuple):
    """Some time in one phase, epoch ns."""

    from_ns: int
    to_ns: int
    phase: str


class Cycles:
    """Puts steps together. `resolved`: whether those of late could be told apart (None: not known yet); `count`: those
    that were."""

    def __init__(self, run_id: str, sample_ns: int) -> None:
        self._run_id = run_id
        self._sample_ns = sample_ns
        self._open: list[Span] = []
        self._updated = False
        self._whole = False
        self._torn = False
        self._stretch: list[Span] = []
        self._n = FIRST
        self._since: int | None = None
        self._told_ns = 0
        self.count = 0
        self.resolved: bool | None = None

    def feed(self, spans: Iterable[Span]) -> list[Step]:
        """The steps or stretches that these spans complete."""
        spans = list(spans)
        whole = self._cut(spans)
        if whole:
            usual = _median(end - begin for begin, end, _ in whole)
            update = _median(_updating(inner) for *_, inner in whole)
            self.resolved = usual >= RESOLVED * self._sample_ns and update >= RESOLVED_UPDATE * self._sample_ns
        elif self.resolved is None and spans and spans[-1].to_ns - (self._since or spans[0].from_ns) > PATIENCE_NS:
            self.resolved = False
        if self.resolved is None:
            self._since = self._since or (spans[0].from_ns if spans else None)
            return []
        if not self.resolved:
            return self._stretches(spans)
        self._stretch = []
        whole = [one for one in whole if one[0] >= self._told_ns]
        steps = [self._step(begin, end, forwarded(inner), "step") for begin, end, inner in whole]
        return [step for step in steps if step is not None]

    def _cut(self, spans: list[Span]) -> list[tuple[int, int, list[Span]]]:
        """The cycles that were seen from begin to end. One that the pause between two runs of py-spy has torn is left
        out where it is short; in a long one the pause goes to the phase before it."""
        whole: list[tuple[int, int, list[Span]]] = []
        for span in spans:
            if self._open and (gap := span.from_ns - self._open[-1].to_ns) > TORN * self._sample_ns:
                self._torn = True
                if gap > GAP_NS:
                    self._begin(whole=False)
                else:
                    self._open[-1] = self._open[-1]._replace(to_ns=span.from_ns)
            if self._updated and span.phase in BEGIN:
                began = self._open[0].from_ns
                if self._whole and not (self._torn and span.from_ns - began < LONG_NS):
                    whole.append((began, span.from_ns, self._open))
                self._begin(whole=True)
            self._updated |= span.phase in UPDATE
            self._open.append(span)
        return whole

    def _begin(self, *, whole: bool) -> None:
        self._open, self._updated, self._whole, self._torn = [], False, whole, False

    def _stretches(self, spans: list[Span]) -> list[Step]:
        """Stretches of a second, one after the other; the pause between two runs of py-spy goes to what it follows."""
        out: list[Step | None] = []
        for span in spans:
            held = self._stretch
            if held and span.from_ns - held[-1].to_ns > GAP_NS:
                held.clear()
            elif held:
                held[-1] = held[-1]._replace(to_ns=span.from_ns)
            held.append(span)
            if span.to_ns - held[0].from_ns >= STRETCH_NS:
                out.append(self._step(held[0].from_ns, span.to_ns, held, "stretch"))
                self._stretch = []
        return [step for step in out if step is not None]

    def _step(self, begin: int, end: int, spans: list[Span], what: str) -> Step | None:
        phases: dict[str, int] = {}
        for span in spans:
            if span.phase != OTHER:
                phases[span.phase] = phases.get(span.phase, 0) + span.to_ns - span.from_ns
        trained = any(name in UPDATE for name in phases)
        if not trained and what == "stretch" and "data" not in phases and "forward" not in phases:
            return None  # no training that anything shows
        self._n += 1
        self._told_ns = end
        self.count += what == "step"
        return Step(
            t=begin, run_id=self._run_id, n=self._n - 1, dur_ns=end - begin, phases_ns=phases,
            loader_id=0, kind="train" if trained else None, had_backward=trained or None, sampled=what,
        )  # fmt: skip


def forwarded(spans: list[Span]) -> list[Span]:
    """A step's spans with what no frame names, between the arrival of its batch and its backward, as forward."""
    first = next((at for at, span in enumerate(spans) if span.phase == "backward"), None)
    if first is None:
        return spans
    arrived = max((at for at, span in enumerate(spans[:first]) if span.phase in ("data", "h2d")), default=-1)
    return [
        span._replace(phase="forward") if arrived < at < first and span.phase == OTHER else span
        for at, span in enumerate(spans)
    ]


def _updating(spans: Iterable[Span]) -> int:
    return sum(one.to_ns - one.from_ns for one in spans if one.phase in UPDATE)


def _median(values: Iterable[int]) -> int:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]
