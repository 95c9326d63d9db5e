"""What tracks look like: the parts of a view, as plain functions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, takewhile

import msgspec

from gputop.diagnosis.loop import in_order
from gputop.records import Fold, Gpu, Sampler, Step, Verdict
from gputop.thinned import rates, within_seconds
from gputop.tiers import Bucket, percentile
from gputop.tracks import EXACT_NS, WINDOW_NS, WINDOW_STEPS, GpuTrack, HostTrack, RunTrack, S
from gputop.view import GpuView, HostView, RunView, Segment, Share
from gputop.window import Window

FORGET_ENDED_NS = 600 * S
"""A run that ended stays in view this long."""

SAID_NS = 120 * S
"""How long a recorded verdict holds without being said again: recorders repeat it every minute."""

MS = 1e6


def forgotten(track: RunTrack, now_ns: int) -> bool:
    """Whether a run ended so long ago that it is no longer shown."""
    return track.ended is not None and (track.last_end or 0) < now_ns - FORGET_ENDED_NS


def run_order(item: tuple[str, RunTrack]) -> tuple[bool, bool, str, int, int]:
    """Runs that go on first, those that tell their steps before others, then by script and rank."""
    track = item[1]
    silent = track.last_end is None and track.alive is None
    return (track.ended is not None, silent, track.run.script or "", track.run.rank or 0, track.run.t)


def gpu_order(item: tuple[str, GpuTrack]) -> tuple[int, str]:
    """GPUs by index, those without one last."""
    samples = item[1].samples
    index = samples[-1].gpu_index if samples else None
    return (index if index is not None else 1 << 16, item[0])


def run_view(
    track: RunTrack,
    window: Window,
    verdict: Verdict,
    segments: tuple[Segment, ...],
    *,
    ledger: tuple[Share, ...],
    match: tuple[str | None, str | None],
    axis: tuple[int, int],
    column_ns: int,
) -> RunView:
    """A run as shown: figures of its window's train steps, histories along the axis."""
    train = [step for step in window.steps if step.kind != "eval"]
    held, folds = train, window.folds
    if train and folds:  # the window may be the last of it: a rate is that of whole seconds
        held = track.trained(min(train[0].t, window.to_ns - WINDOW_NS), window.to_ns)
        folds = within_seconds(track.folds, held)
    first, last = axis
    loader = _train_loader(track, train)
    rate, sample_rate = _rates(held, folds)
    counted = not train or train[-1].sampled != "stretch"  # else no step of it is known, only shares of time
    return RunView(
        run=track.run,
        state=_state(track, verdict),
        verdict=verdict,
        steps_total=max(track.train_steps, (track.alive.steps if track.alive else 0)) if counted else 0,
        step_ms=_step_ms(train, held, folds) if counted else None,
        steps_per_s=rate if counted else None,
        samples_per_s=sample_rate,
        ledger=ledger,
        loader=track.loaders.get(loader) if loader is not None else None,
        model=track.model,
        process=track.process[-1] if track.process else None,
        alive=track.alive,
        gpu_uuid=match[0],
        gpu_match=match[1],
        clock=verdict.clock,
        gaps=track.gaps,
        dropped=(track.alive.dropped or 0) if track.alive else 0,
        first_ns=track.first_t,
        last_ns=track.last_end,
        step_history=_scaled(track.fine.means(first, last), 1 / MS),
        step_max_history=_scaled(track.fine.highs(first, last), 1 / MS),
        cause_history=_causes(segments, axis, column_ns),
        segments=segments,
        phase_history=_phase_history(track, axis),
        profile=track.profile,
        worker=window.worker,
        said=said_then(track, verdict, window.to_ns),
    )


def columns_view(view: RunView, track: RunTrack, last: int, column_ns: int) -> RunView:
    """A run at a moment of which only columns up to `last` are held: what they tell, and nothing that they don't."""
    recent = _recent_columns(track, last, column_ns)
    count = sum(bucket.count for bucket in recent)
    span_ns = (last - recent[0].column + 1) * column_ns if recent else 0
    samples = sum(bucket.weight for bucket in recent)
    return msgspec.structs.replace(
        view,
        steps_per_s=count * S / span_ns if count else None,
        samples_per_s=samples * S / span_ns if samples else None,
        ledger=_column_ledger(recent),
    )


def _recent_columns(track: RunTrack, last: int, column_ns: int) -> list[Bucket]:
    """The columns of a window that ends with column `last`: WINDOW_NS or WINDOW_STEPS, oldest first."""
    found: list[Bucket] = []
    reach = EXACT_NS // column_ns
    for bucket in reversed(track.fine.all()):
        if bucket.column > last:
            continue
        far = (last - bucket.column + 1) * column_ns > WINDOW_NS
        enough = sum(one.count for one in found) >= WINDOW_STEPS
        if (far and enough) or last - bucket.column >= reach:
            break
        found.append(bucket)
    found.reverse()
    return found


def _column_ledger(buckets: list[Bucket]) -> tuple[Share, ...]:
    """The ledger of these columns' steps: every phase seen, and what no phase covers as `other`."""
    whole, count = sum(bucket.total for bucket in buckets), sum(bucket.count for bucket in buckets)
    if whole <= 0 or not count:
        return ()
    parts: dict[str, float] = {}
    for bucket in buckets:
        for name, value in (bucket.parts or {}).items():
            parts[name] = parts.get(name, 0.0) + value
    parts["other"] = max(0.0, whole - sum(parts.values()))
    return tuple(Share(name, 100 * parts[name] / whole, parts[name] / count / MS) for name in in_order(parts))


def said_then(track: RunTrack, verdict: Verdict, now_ns: int) -> Verdict | None:
    """The verdict recorded as in force at a moment, where its cause is another one than today's."""
    said = next((one for one in reversed(track.said) if one.t <= now_ns), None)
    if said is None or said.cause == verdict.cause:
        return None
    return said if track.ended is not None or now_ns - said.t <= SAID_NS else None


def _state(track: RunTrack, verdict: Verdict) -> str:
    if track.ended is not None:
        return track.ended
    if track.last_end is None:
        return "training" if verdict.clock == "sampled" and track.alive is None else "starting"
    return "stalled" if verdict.cause == "stalled" else "training"


def _train_loader(track: RunTrack, train: list[Step]) -> int | None:
    """The loader that feeds training: that of the latest train step, else the only one there is."""
    for step in reversed(train):
        if step.loader_id is not None and step.loader_id in track.loaders:
            return step.loader_id
    return next(iter(track.loaders), None) if len(track.loaders) == 1 else None


def _step_ms(train: list[Step], held: list[Step], folds: tuple[Fold, ...]) -> dict[str, float] | None:
    if not train:
        return None
    durations = [step.dur_ns / MS for step in train]
    longest = max((fold.max_ns or 0 for fold in folds), default=0) / MS
    return {
        "p50": percentile(durations, 0.5) or 0.0,
        "p95": percentile(durations, 0.95) or 0.0,
        "max": max(longest, *(step.dur_ns / MS for step in held)),
    }


def _rates(train: list[Step], folds: tuple[Fold, ...]) -> tuple[float | None, float | None]:
    """Steps and samples a second over the wall time that the train steps span."""
    if not train:
        return None, None
    if (counted := rates(train, folds)) is not None:
        return counted
    span = train[-1].t + train[-1].dur_ns - train[0].t
    if span <= 0:
        return None, None
    known = [step.samples for step in train if step.samples is not None]
    samples = sum(known) * S / span if known else None
    return len(train) * S / span, samples


def _scaled(history: tuple[float | None, ...], factor: float) -> tuple[float | None, ...]:
    return tuple(None if value is None else value * factor for value in history)


def _causes(segments: tuple[Segment, ...], axis: tuple[int, int], column_ns: int) -> tuple[str | None, ...]:
    """The cause that held in each column."""
    first, last = axis
    out: list[str | None] = [None] * (last - first + 1)
    for segment in segments:
        start = max(segment.from_ns // column_ns, first)
        end = min(segment.to_ns // column_ns, last)
        for column in range(start, end + 1):
            out[column - first] = segment.cause
    return tuple(out)


def _phase_history(track: RunTrack, axis: tuple[int, int]) -> dict[str, tuple[float | None, ...]]:
    """Each phase's share of step time by column, in percent."""
    first, last = axis
    buckets = track.fine.buckets(first, last)
    names = sorted({name for bucket in buckets if bucket is not None and bucket.parts for name in bucket.parts})
    return {
        name: tuple(
            100 * (bucket.parts or {}).get(name, 0.0) / bucket.total if bucket is not None and bucket.total else None
            for bucket in buckets
        )
        for name in names
    }


def trouble(samplers: Iterable[Sampler]) -> str | None:
    """What keeps GPU samples from coming, in a few words."""
    for sampler in samplers:
        if sampler.backend != "host" and sampler.state in ("silent", "restarted"):
            return "driver silent" + (f": {sampler.call.partition(' ')[0]}" if sampler.call else "")
    return None


def gpu_view(track: GpuTrack, now_ns: int, axis: tuple[int, int], trouble: str | None) -> GpuView:
    """A GPU as shown; `trouble` is what its sampler suffers."""
    gpu = track.samples[-1]
    first, last = axis
    return GpuView(
        gpu=gpu,
        age_ns=max(0, now_ns - gpu.t),
        util_history=track.util.means(first, last),
        util_max_history=track.peak.highs(first, last),
        mem_history=track.memory.means(first, last),
        burst_note=burst_note(track, gpu, now_ns),
        trouble=trouble,
    )


def burst_note(track: GpuTrack, gpu: Gpu, now_ns: int) -> str | None:
    """What the driver's own samples of the last 10 s show that one gauge hides: bursts and how often they come."""
    recent = list(takewhile(lambda burst: burst.t > now_ns - 20 * S, reversed(track.bursts)))
    spread = [value for burst in recent if burst.util_pct for value in (max(burst.util_pct), min(burst.util_pct))]
    if not spread or max(spread) - min(spread) < 40:
        return None
    points = sorted(
        (burst.t + dt, value)
        for burst in recent
        for dt, value in zip(burst.dt_ns, burst.util_pct, strict=False)
        if burst.t + dt > now_ns - 10 * S
    )
    if len(points) < 20:
        return None
    values = [value for _, value in points]
    low, high = percentile(values, 0.1) or 0.0, percentile(values, 0.95) or 0.0
    if high - low < 40:
        return None
    middle = (low + high) / 2
    rises = [t for (_, before), (t, value) in pairwise(points) if before < middle <= value]
    if len(rises) < 3:
        return None
    period_ms = (rises[-1] - rises[0]) / (len(rises) - 1) / MS
    return (
        f"bursts of {high:.0f} % every {period_ms:.0f} ms"
        if period_ms < 1000
        else (f"bursts of {high:.0f} % every {period_ms / 1000:.1f} s")
    )


def host_view(track: HostTrack, now_ns: int, axis: tuple[int, int]) -> HostView:
    """The machine as shown."""
    host = track.samples[-1]
    first, last = axis
    return HostView(
        host=host,
        age_ns=max(0, now_ns - host.t),
        cpu_history=track.cpu.means(first, last),
        iowait_history=track.iowait.means(first, last),
    )
