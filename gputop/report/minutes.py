"""A run's account and series from the minutes of a recording, and from the few steps that must be looked up singly."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import pairwise

from gputop.diagnosis.apart import set_apart
from gputop.diagnosis.phases import EPISODIC, role
from gputop.recording.errors import Unreadable
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

EPOCHS = 20_000
"""Epochs of a run that are told apart."""

EPISODES_LISTED = 5_000
"""Seconds with a checkpoint or an evaluation that are read one by one."""

LAST_NS = 60 * S
"""How far before a run's end its last step is looked for."""


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


def figures(recording: Recording, span: RunSpan, axis: Axis, firsts: Sequence[Step]) -> tuple[Account, RunSeries]:
    """A run's account over its whole length, and what is drawn of it; `firsts` open its epochs. Raises Unreadable."""
    run_id = span.run.run_id
    minutes = Minutes(axis)
    for tier in recording.minutes(run_id):
        minutes.add(tier)
    events = [event for event in recording.events(EVENTFUL) if event.run_id == run_id]
    warm = _warmup(recording, span)
    later = [step for step in firsts[1:] if step.n not in {one.n for one in warm}]
    steady = Sketch()
    steady.merge(minutes.sketch)
    apart = [*warm, *later]
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
        epoch_firsts=len(later),
        epochs=_epochs(firsts, span, _last_n(recording, span) if firsts else None),
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


def first_steps(recording: Recording) -> dict[str, list[Step]]:
    """The first steps of all epochs, by run, in time order. The one reading that goes over every step. Raises
    Unreadable."""
    out: dict[str, list[Step]] = {}
    try:
        for _, record in recording.rows(Step, "first_of_epoch AND seq > ?", (0,)):
            if isinstance(record, Step) and record.kind != "eval" and not record.partial:
                mine = out.setdefault(record.run_id, [])
                if len(mine) < EPOCHS:
                    mine.append(record)
    except sqlite3.Error as error:
        path = recording.path
        raise Unreadable(f"{path} is damaged ({error}); gputop recover {path} saves what can be saved") from None
    for steps in out.values():
        steps.sort(key=lambda step: step.t)
    return out


def _epochs(firsts: Sequence[Step], span: RunSpan, last_n: int | None) -> tuple[Epoch, ...]:
    """The epochs that begin with these steps; `last_n` is the number of the run's last step."""
    out = []
    for number, step in enumerate(firsts):
        following = firsts[number + 1] if number + 1 < len(firsts) else None
        end_n = following.n if following is not None else None if last_n is None else last_n + 1
        out.append(
            Epoch(
                epoch=step.epoch if step.epoch is not None else number,
                from_ns=step.t,
                to_ns=following.t if following is not None else max(span.last_ns, step.t),
                steps=None if end_n is None else max(0, end_n - step.n),
                first_step_ms=step.dur_ns * MS,
            )
        )
    return tuple(out)


def _last_n(recording: Recording, span: RunSpan) -> int | None:
    """The number of the run's last train step."""
    return max(
        (
            record.n
            for record in recording.records(from_ns=span.last_ns - LAST_NS, to_ns=span.last_ns, types=(Step,))
            if isinstance(record, Step) and record.run_id == span.run.run_id and record.kind != "eval"
        ),
        default=None,
    )


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
    columns = f"run, t, width_ns, steps, dur_ns, min_ns, max_ns, samples, {', '.join(SUMS)}, more, NULL"
    where = f"run = (SELECT run FROM run_key WHERE run_id = ?) AND host_{kind}_ns > 0 ORDER BY t LIMIT ?"
    tiers = list(recording.tiers(f"SELECT {columns} FROM second WHERE {where}", (span.run.run_id, EPISODES_LISTED)))
    out: list[tuple[int | None, int, float]] = []
    for before, tier in pairwise([None, *tiers]):
        assert tier is not None
        ns = float(tier.phases_ns.get(kind, 0))
        if before is not None and tier.t - before.t < 2 * S and out and before.t + before.width_ns >= tier.t - S // 2:
            out[-1] = (None, out[-1][1], out[-1][2] + ns)
        else:
            out.append((None, tier.t, ns))
    return out
