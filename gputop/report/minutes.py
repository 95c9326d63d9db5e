"""A run's account and series from the minutes of a recording, and from the few steps that must be looked up singly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gputop.diagnosis.apart import set_apart
from gputop.diagnosis.phases import EPISODIC, role
from gputop.recording.past import RunSpan, Tier
from gputop.recording.reader import Recording
from gputop.recording.schema import SUMS
from gputop.records import Event, Step
from gputop.report.account import Account, Episode, Epoch, Spread
from gputop.report.exact import EVENTFUL, MS, summed
from gputop.report.series import Axis, Line, RunSeries, shares
from gputop.tiers import Sketch
from gputop.tracks import S, within

WARM_NS = 60 * S
WARM_STEPS = 400
"""A run's beginning that is read step by step for its warm-up: what compiles and tunes longer is no beginning."""

EPOCHS_LOOKED_UP = 48
"""Epochs of a run whose first step is looked up; of more, evenly spaced ones."""

EPISODES_LISTED = 5_000
"""Seconds with a checkpoint or an evaluation that are read one by one."""

NEAR_NS = S // 100
"""An epoch's mark and its first step are noted within this."""


class Minutes:
    """A run's minutes, summed as a whole and by column."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.sketch = Sketch()
        self.steps, self.samples, self.train_ns, self.longest = 0, 0, 0, 0
        self.phases: dict[str, float] = {}
        self._sketches: list[Sketch | None] = [None] * axis.columns
        self._low: list[float | None] = [None] * axis.columns
        self._high: list[float | None] = [None] * axis.columns
        self._ns = [0.0] * axis.columns
        self._parts: dict[str, list[float]] = {}

    def add(self, tier: Tier) -> None:
        """Take in a minute."""
        phases = within(tier.phases_ns, tier.dur_ns)
        self.steps += tier.steps
        self.samples += tier.samples
        self.train_ns += tier.dur_ns
        self.longest = max(self.longest, tier.max_ns)
        column = self.axis.column(tier.t)
        self._ns[column] += tier.dur_ns
        for name, ns in phases.items():
            self.phases[name] = self.phases.get(name, 0.0) + ns
            self._parts.setdefault(name, [0.0] * self.axis.columns)[column] += ns
        low, high = self._low[column], self._high[column]
        self._low[column] = tier.min_ns if low is None else min(low, tier.min_ns)
        self._high[column] = tier.max_ns if high is None else max(high, tier.max_ns)
        if tier.sketch is not None:
            self.sketch.merge(tier.sketch)
            mine = self._sketches[column]
            if mine is None:
                mine = self._sketches[column] = Sketch()
            mine.merge(tier.sketch)

    def series(self) -> RunSeries:
        """The columns as drawn."""
        return RunSeries(
            p50=tuple(
                None if one is None or (middle := one.quantile(0.5)) is None else middle * MS for one in self._sketches
            ),
            low=_in_ms(self._low),
            high=_in_ms(self._high),
            phases=shares(self._parts, self._ns),
        )


def _in_ms(line: Sequence[float | None]) -> Line:
    return tuple(None if value is None else value * MS for value in line)


def figures(recording: Recording, span: RunSpan, axis: Axis) -> tuple[Account, RunSeries]:
    """A run's account over its whole length, and what is drawn of it. Raises Unreadable."""
    run_id = span.run.run_id
    minutes = Minutes(axis)
    for tier in recording.minutes(run_id):
        minutes.add(tier)
    events = [event for event in recording.events(("epoch", *EVENTFUL)) if event.run_id == run_id]
    warm, firsts = _warmup(recording, span), _firsts(recording, span, events)
    steady = Sketch()
    steady.merge(minutes.sketch)
    apart = [*warm, *(step for _, step in firsts[1:] if step is not None)]
    for step in apart:
        _take_out(steady, step)
    account = Account(
        from_ns=span.first_ns,
        to_ns=span.last_ns,
        steps=minutes.steps,
        train_ns=minutes.train_ns,
        samples=minutes.samples,
        phases_ns=minutes.phases,
        every=_spread(minutes.sketch, minutes.longest),
        steady=_spread(steady, minutes.longest, {step.dur_ns for step in apart}),
        warmup_steps=len(warm),
        epoch_firsts=sum(step is not None for _, step in firsts[1:]),
        epochs=_epochs(firsts, span),
        episodes=tuple(_episodes(recording, span, minutes, events)),
    )
    return account, minutes.series()


def _spread(sketch: Sketch, longest_ns: float, without: set[int] | None = None) -> Spread | None:
    """Percentiles out of a sketch; where the longest step is among those left out, the longest bin that is left."""
    if not sketch.count:
        return None
    top = longest_ns if not without or longest_ns not in without else (sketch.quantile(1.0) or longest_ns)
    p50, p95, p99 = (min(sketch.quantile(q) or top, top) * MS for q in (0.5, 0.95, 0.99))
    return Spread(steps=sketch.count, p50=p50, p95=p95, p99=p99, max=top * MS)


def _take_out(sketch: Sketch, step: Step) -> None:
    """Count a step no longer."""
    one = Sketch()
    one.add(step.dur_ns)
    for bin_ in one.bins:
        if sketch.bins.get(bin_, 0) > 0:
            sketch.bins[bin_] -= 1
            sketch.count -= 1


def _warmup(recording: Recording, span: RunSpan) -> list[Step]:
    """The run's warm-up steps, by the same rule as in a window."""
    found: list[Step] = []
    for record in recording.records(from_ns=span.first_ns, to_ns=span.first_ns + WARM_NS, types=(Step,)):
        if isinstance(record, Step) and record.run_id == span.run.run_id and not record.partial:
            if record.kind != "eval":
                found.append(record)
            if len(found) >= WARM_STEPS:
                break
    found.sort(key=lambda step: step.t)
    if not found:
        return []
    _, warm, _ = set_apart(found, [float(step.dur_ns) for step in found])
    return [found[index] for index in warm]


def _firsts(recording: Recording, span: RunSpan, events: Sequence[Event]) -> list[tuple[Event | None, Step | None]]:
    """The beginnings of the run's epochs (the first has no mark) with their first steps, where those were looked up."""
    marks = [event for event in events if event.kind == "epoch"]
    if not marks:
        return []
    stride = -(-len(marks) // EPOCHS_LOOKED_UP)
    out: list[tuple[Event | None, Step | None]] = [(None, _step_at(recording, span, span.first_ns))]
    for number, mark in enumerate(marks):
        out.append((mark, _step_at(recording, span, mark.t) if number % stride == 0 or number < 2 else None))
    return out


def _step_at(recording: Recording, span: RunSpan, t_ns: int) -> Step | None:
    """The run's first step that began then."""
    near = [
        record
        for record in recording.records(from_ns=t_ns - NEAR_NS, to_ns=t_ns + NEAR_NS, types=(Step,))
        if isinstance(record, Step) and record.run_id == span.run.run_id and record.kind != "eval"
    ]
    return min(near, key=lambda step: (not step.first_of_epoch, abs(step.t - t_ns)), default=None)


def _epochs(firsts: Sequence[tuple[Event | None, Step | None]], span: RunSpan) -> tuple[Epoch, ...]:
    out = []
    ends = [*(mark.t for mark, _ in firsts[1:] if mark is not None), span.last_ns]
    for number, ((mark, step), end) in enumerate(zip(firsts, ends, strict=True)):
        following = firsts[number + 1][1] if number + 1 < len(firsts) else None
        label = mark.label if mark is not None else None
        out.append(
            Epoch(
                epoch=int(label) if label is not None and label.isdecimal() and len(label) < 10 else number,
                from_ns=span.first_ns if mark is None else mark.t,
                to_ns=end,
                steps=following.n - step.n if step is not None and following is not None else None,
                first_step_ms=None if step is None else step.dur_ns * MS,
            )
        )
    return tuple(out)


def _episodes(recording: Recording, span: RunSpan, minutes: Minutes, events: Sequence[Event]) -> list[Episode]:
    """What comes every so often: from the seconds in which steps were marked so, else from events."""
    out = []
    for kind in EVENTFUL:
        total = sum(ns for name, ns in minutes.phases.items() if role(name) == kind)
        told = [(None, event.t, float(event.dur_ns)) for event in events if event.kind == kind and event.dur_ns]
        if kind in EPISODIC and minutes.phases.get(kind):
            found = _seconds(recording, span, kind)
            if len(found) < EPISODES_LISTED:
                out.append(summed(kind, found, minutes.train_ns))
                continue
        if told and not total:
            out.append(summed(kind, told, minutes.train_ns))
        elif total:
            out.append(Episode(kind=kind, share_pct=100 * total / minutes.train_ns))
    return out


def _seconds(recording: Recording, span: RunSpan, kind: str) -> list[tuple[int | None, int, float]]:
    """When the run's steps held such a phase, to a second; neighbouring seconds are one episode."""
    question = f"SELECT run, t, width_ns, steps, dur_ns, min_ns, max_ns, samples, {', '.join(SUMS)}, more, NULL FROM second"
    where = f"run = (SELECT run FROM run_key WHERE run_id = ?) AND host_{kind}_ns > 0 ORDER BY t LIMIT ?"
    tiers = list(recording.tiers(f"{question} WHERE {where}", (span.run.run_id, EPISODES_LISTED)))
    out: list[tuple[int | None, int, float]] = []
    for before, tier in pairwise([None, *tiers]):
        assert tier is not None
        ns = float(tier.phases_ns.get(kind, 0))
        if before is not None and tier.t - before.t < 2 * S and out and before.t + before.width_ns >= tier.t - S // 2:
            out[-1] = (None, out[-1][1], out[-1][2] + ns)
        else:
            out.append((None, tier.t, ns))
    return out
