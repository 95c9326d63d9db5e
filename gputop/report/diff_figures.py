"""A run's figures for a comparison: its steady steps, one by one or summed, and where their time goes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gputop.diagnosis.apart import set_apart
from gputop.diagnosis.numbers import ranked
from gputop.recording.kinds import kind_of, ran_backward
from gputop.recording.past import RunSpan, Tier
from gputop.recording.reader import Recording
from gputop.records import Event, Fold, Run, Step
from gputop.report.diff_noise import Bin
from gputop.tiers import Sketch
from gputop.tracks import within

S = 1_000_000_000
MS = 1e-6

SECONDS_NS = 2 * 3600 * S
"""Length of a run up to which sums a second are read; beyond, those a minute."""

BEGINNING_NS = 120 * S
"""How far into a long run its warm-up is looked for."""

EDGE_NS = 2 * S
"""Around an epoch's start, sums are left out this far: one of them holds the epoch's first step ..."""

EDGE_LEAVES = 0.5
"""... as long as this share of them is left."""


class RankFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One rank of a job over its whole length, warm-up included: its mean step, and its wait for data."""

    run_id: str
    mean_ms: float
    data_pct: float | None


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """A run's train steps. `steady` leaves out warm-up and the first step of each epoch, as do percentiles and phases.

    `bins` are the steady steps in time order: single ones (`exact`), or sums of a second or a minute. `phases_ms` sum
    to the mean step, `other` included. `batch` is samples a step of this rank. `epoch_starts` counts the first steps
    left out, None where they could not be told apart; `steps_per_s` is of the whole run, all of that included.
    """

    bins: tuple[Bin, ...]
    exact: bool
    steps: int
    steady_steps: int
    mean_ms: float | None
    step_ms: dict[str, float]
    phases_ms: dict[str, float]
    warmup_steps: int
    epoch_starts: int | None
    epoch_start_ms: float | None
    batch: float | None
    steps_per_s: float | None
    samples_per_s: float | None


def rank_figures(recording: Recording, run_id: str) -> RankFigures | None:
    tiers = recording.minutes(run_id)
    steps, ns = sum(tier.steps for tier in tiers), sum(tier.dur_ns for tier in tiers)
    if not steps or not ns:
        return None
    data = [tier.phases_ns["data"] for tier in tiers if "data" in tier.phases_ns]
    return RankFigures(run_id=run_id, mean_ms=ns * MS / steps, data_pct=100 * sum(data) / ns if data else None)


def figures(recording: Recording, span: RunSpan, exact: bool) -> Figures:
    """A run's figures: from every step, or from the recording's sums where those are wanted or steps were thinned."""
    if exact:
        steps = exact_steps(recording, span)
        if steps is not None:
            return of_steps(span, steps)
    return of_tiers(recording, span)


def exact_steps(recording: Recording, span: RunSpan) -> list[Step] | None:
    """The run's finished train steps in time order; None when some are known only as sums."""
    run_id = span.run.run_id
    if any(isinstance(one, Fold) and one.run_id == run_id for one in recording.records(types=(Fold,))):
        return None
    return _train_steps(recording, span.run, span.first_ns, span.last_ns)


def _train_steps(recording: Recording, run: Run, from_ns: int, to_ns: int) -> list[Step]:
    backward: set[int | None] = set()
    found = []
    for record in recording.records(from_ns=from_ns, to_ns=to_ns, types=(Step,)):
        if isinstance(record, Step) and record.run_id == run.run_id and not record.partial:
            if ran_backward(record):
                backward.add(record.loader_id)
            found.append(record)
    return sorted((step for step in found if kind_of(step, backward) != "eval"), key=lambda step: step.t)


def of_steps(span: RunSpan, train: list[Step]) -> Figures:
    """The figures of a run whose train steps are all at hand, in time order."""
    lengths = [float(step.dur_ns) for step in train]
    keep, warm, _ = set_apart(train, lengths) if train else ([], [], [])
    apart = {*keep, *warm}
    starts = [lengths[index] for index in range(len(train)) if index not in apart]
    phases: dict[str, float] = {}
    for index in keep:
        for name, ns in within(train[index].phases_ns, train[index].dur_ns).items():
            phases[name] = phases.get(name, 0) + ns
    bins = tuple(Bin(train[i].t, 1, train[i].dur_ns, train[i].samples or 0) for i in keep)
    ordered = sorted(lengths[index] * MS for index in keep)
    percentiles = {name: ranked(ordered, q) for name, q in QUANTILES.items()} if ordered else {}
    start_ms = sum(starts) * MS / len(starts) if starts else None
    return _figures(span, bins, True, percentiles, phases, len(warm), len(starts), start_ms)


QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}


def of_tiers(recording: Recording, span: RunSpan) -> Figures:
    """The figures of a long or thinned run from the recording's sums."""
    run_id = span.run.run_id
    short = span.last_ns - span.first_ns <= SECONDS_NS
    minutes = recording.minutes(run_id, span.first_ns, span.last_ns)
    tiers = recording.seconds(run_id, span.first_ns, span.last_ns) if short else minutes
    beginning = _train_steps(recording, span.run, span.first_ns, span.first_ns + BEGINNING_NS)
    warm = set_apart(beginning, [float(step.dur_ns) for step in beginning])[1] if beginning else []
    begun = beginning[warm[-1]].t + beginning[warm[-1]].dur_ns if warm else span.first_ns
    steady = [tier for tier in tiers if tier.steps > 0 and (tier.t >= begun or not warm)]
    edges = [event.t for event in _epochs(recording, run_id)] if short else []
    between = [tier for tier in steady if not _at_edge(tier, edges)]
    told_apart = short and len(between) >= EDGE_LEAVES * len(steady)
    kept = between if told_apart else steady
    phases: dict[str, float] = {}
    for tier in kept:
        for name, ns in tier.phases_ns.items():
            phases[name] = phases.get(name, 0) + ns
    bins = tuple(Bin(tier.t, tier.steps, tier.dur_ns, tier.samples) for tier in kept)
    percentiles = _sketched([tier for tier in minutes if tier.t + tier.width_ns > begun])
    return _figures(span, bins, False, percentiles, phases, len(warm), len(edges) if told_apart else None, None)


def _sketched(minutes: Sequence[Tier]) -> dict[str, float]:
    sketch = Sketch()
    for tier in minutes:
        if tier.sketch is not None:
            sketch.merge(tier.sketch)
    top = max((tier.max_ns for tier in minutes), default=0)
    found = {name: sketch.quantile(q) for name, q in QUANTILES.items() if q < 1}
    out = {name: min(value, top) * MS for name, value in found.items() if value is not None}
    return {**out, "max": top * MS} if top else out


def _epochs(recording: Recording, run_id: str) -> list[Event]:
    return [event for event in recording.events() if event.kind == "epoch" and event.run_id == run_id]


def _at_edge(tier: Tier, edges: Sequence[int]) -> bool:
    return any(tier.t - EDGE_NS <= edge <= tier.t + tier.width_ns + EDGE_NS for edge in edges)


def _figures(
    span: RunSpan,
    bins: tuple[Bin, ...],
    exact: bool,
    percentiles: dict[str, float],
    phases_ns: dict[str, float],
    warm: int,
    epoch_starts: int | None,
    epoch_start_ms: float | None,
) -> Figures:
    steps = sum(one.steps for one in bins)
    total = float(sum(one.dur_ns for one in bins))
    samples = sum(one.samples for one in bins)
    phases = {name: ns * MS / steps for name, ns in phases_ns.items() if ns > 0} if steps else {}
    if steps:
        phases["other"] = max(0.0, total * MS / steps - sum(phases.values()))
    span_s = (span.last_ns - span.first_ns) / 1e9
    batch = samples / steps if steps and samples else None
    return Figures(
        bins=bins,
        exact=exact,
        steps=span.steps,
        steady_steps=steps,
        mean_ms=total * MS / steps if steps else None,
        step_ms=percentiles,
        phases_ms=phases,
        warmup_steps=warm,
        epoch_starts=epoch_starts,
        epoch_start_ms=epoch_start_ms,
        batch=batch,
        steps_per_s=span.steps / span_s if span_s > 0 else None,
        samples_per_s=span.steps * batch / span_s if span_s > 0 and batch else None,
    )


def train_loader(recording: Recording, span: RunSpan) -> int | None:
    """The loader whose batches are followed by backward, by the run's first step that tells; else the first's."""
    first: list[int | None] = []
    upto = span.first_ns + BEGINNING_NS
    for one in recording.records(from_ns=span.first_ns, to_ns=upto, types=(Step,)):
        if not isinstance(one, Step) or one.run_id != span.run.run_id or one.partial:
            continue
        if ran_backward(one) or one.kind == "train":
            return one.loader_id
        if one.kind is None:
            first.append(one.loader_id)
    return first[0] if first else None
