"""An earlier moment of what is watched live, out of the watch's own memory: what a recording would give for it.

Within the records held exactly, everything is as it was. Beyond, columns tell a run's totals, its shares and its
histories; its verdict is the one that was said then, and figures that are held no more are absent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeVar

import msgspec

from gputop.diagnosis.causes import unknown
from gputop.recording.past import WORKER_NS, GpuPast, HostPast, Past, RunPast, Tier
from gputop.records import AnyRecord, Gpu, Host, Record, Run, Sampler, Verdict, end_of
from gputop.tiers import Cell
from gputop.timeline import Timeline
from gputop.tracks import (
    COLUMNS,
    EXACT_NS,
    WINDOW_MAX_STEPS,
    WINDOW_NS,
    WINDOW_STEPS,
    GpuTrack,
    HostTrack,
    RunTrack,
)
from gputop.view import Segment
from gputop.watching import HISTORY_COLUMNS, Watch

R = TypeVar("R", bound=Record)


class Earlier(msgspec.Struct, frozen=True):
    """A moment as it is remembered: what is known of it, and the verdicts of runs whose steps are held no more."""

    past: Past
    told: dict[str, Verdict]


def earliest(timeline: Timeline, now_ns: int) -> int:
    """The earliest moment that can be gone back to."""
    first = now_ns if timeline.first_ns is None else timeline.first_ns
    return min(now_ns, max(first, now_ns - COLUMNS * timeline.column_ns))


def earlier(watch: Watch, t_ns: int) -> Earlier:
    """A moment of a watch's past, from `earliest` to now."""
    timeline = watch.timeline
    known: list[AnyRecord] = []
    exact: list[AnyRecord] = [*_until(timeline.others_seen, t_ns), *_until(timeline.events, t_ns)]
    runs, told = {}, {}
    for run_id, track in timeline.runs.items():
        if min(track.run.t, track.run.t if track.first_t is None else track.first_t) > t_ns:
            continue
        said = next((one for one in reversed(watch.said.get(run_id, ())) if one.t <= t_ns), None)
        from_ns = _exact_from(track, t_ns, timeline.column_ns)
        if from_ns is None:
            told[run_id] = said if said is not None else _forgotten(track.run, t_ns)
            from_ns = t_ns // timeline.column_ns * timeline.column_ns
        else:
            exact += [step for step in track.steps if step.t >= from_ns and step.t + step.dur_ns <= t_ns]
            exact += [fold for fold in track.folds if from_ns <= fold.t <= t_ns]
        judge = watch.judges.get(run_id)
        runs[run_id] = _run_past(track, (from_ns, t_ns), judge.segments if judge is not None else (), said)
        known += _described(track, t_ns)
        exact += [*_until(track.process, t_ns), *_until(track.sites, t_ns)]
    gpus, hosts = {}, {}
    for uuid, gpu in timeline.gpus.items():
        gpus[uuid], samples, bursts = _gpu_past(gpu, t_ns)
        exact += [*samples, *bursts]
    for name, host in timeline.hosts.items():
        hosts[name], some = _host_past(host, t_ns)
        exact += some
    exact.sort(key=end_of)
    past = Past(
        t_ns=t_ns,
        from_ns=t_ns if timeline.first_ns is None else timeline.first_ns,
        column_ns=timeline.column_ns,
        records=(*known, *_samplers(timeline, t_ns), *exact),
        runs=runs,
        gpus=gpus,
        hosts=hosts,
    )
    return Earlier(past, told)


def _until(records: Iterable[R], t_ns: int) -> list[R]:
    return [record for record in records if record.t <= t_ns]


def _exact_from(track: RunTrack, t_ns: int, width_ns: int) -> int | None:
    """The start of the first column from which on every step of a run is held, where those up to `t_ns` make a whole
    window; else None."""
    steps = track.steps
    if not track.forgot and (not steps or track.first_t == steps[0].t):
        return (steps[0].t if steps else t_ns) // width_ns * width_ns
    if not steps:
        return None
    from_ns = -(-steps[0].t // width_ns) * width_ns
    there = sum(step.t >= from_ns and step.t + step.dur_ns <= t_ns for step in steps)
    long = (t_ns - from_ns >= WINDOW_NS and there >= WINDOW_STEPS) or t_ns - from_ns >= EXACT_NS
    return from_ns if long or there >= WINDOW_MAX_STEPS else None


def _run_past(track: RunTrack, span: tuple[int, int], segments: Iterable[Segment], said: Verdict | None) -> RunPast:
    """A run before `span` (its first exact moment and the moment looked at)."""
    from_ns, t_ns = span
    width = track.fine.width_ns
    column = from_ns // width
    later = track.fine.held(column, 1 << 62)
    before = track.fine.held(t_ns // width - HISTORY_COLUMNS, column - 1)
    phases = dict(track.phases)
    for bucket in later:
        for name, ns in (bucket.parts or {}).items():
            phases[name] = phases.get(name, 0) - ns
    end = next((one for one in reversed(track.events) if one.kind in ("exit", "lost_process")), None)
    ends = [step.t + step.dur_ns for step in track.steps if step.t < from_ns]
    ends += [min(t_ns, (bucket.column + 1) * width) for bucket in before[-1:]] if not ends else []
    return RunPast(
        first_t=track.first_t if track.first_t is not None and track.first_t <= t_ns else None,
        train_steps=track.train_steps - sum(bucket.count for bucket in later),
        train_ns=track.train_ns - int(sum(bucket.total for bucket in later)),
        samples=track.samples - sum(bucket.weight for bucket in later),
        phases_ns={name: int(ns) for name, ns in phases.items() if ns > 0},
        tiers=tuple(
            Tier(
                run_id=track.run.run_id, t=bucket.column * width, width_ns=width, steps=bucket.count,
                dur_ns=int(bucket.total), min_ns=int(bucket.low), max_ns=int(bucket.high), samples=bucket.weight,
                phases_ns={name: int(ns) for name, ns in (bucket.parts or {}).items()},
            )
            for bucket in before
        ),
        changes=tuple((one.from_ns, one.cause) for one in segments if one.from_ns <= t_ns),
        said=said,
        last_ns=max((end for end in ends if end <= t_ns), default=None),
        ended=track.ended if end is None or end.t <= t_ns else None,
        backward_loaders=tuple(track.backward_loaders),
    )  # fmt: skip


def _described(track: RunTrack, t_ns: int) -> list[AnyRecord]:
    """What a run is made of, and its latest sign of life."""
    out: list[AnyRecord] = [track.run, *track.loaders.values()]
    out += [one for one in (track.model, track.profile) if one is not None]
    worker = track.worker(t_ns - WORKER_NS, t_ns)
    out += [worker] if worker is not None else []
    return out + _until(track.alives, t_ns)[-1:]


def _forgotten(run: Run, t_ns: int) -> Verdict:
    """The verdict where none is remembered."""
    return Verdict(
        t=t_ns, run_id=run.run_id, cause=unknown.ID, family=unknown.FAMILY, confidence=0.0,
        headline="what was concluded at this moment is remembered no more: record a run to keep all of it",
    )  # fmt: skip


def _samplers(timeline: Timeline, t_ns: int) -> list[Sampler]:
    """The latest word of each sampler by then."""
    latest = {one.backend: one for one in _until(timeline.samplers_seen, t_ns)}
    return list(latest.values())


def _held_from(samples: deque[Gpu] | deque[Host], t_ns: int, width_ns: int) -> int:
    """The start of the first column from which on samples are handed on one by one; earlier ones are in columns."""
    wanted = (t_ns - EXACT_NS) // width_ns * width_ns
    if len(samples) == samples.maxlen and samples[0].t > wanted:
        wanted = -(-samples[0].t // width_ns) * width_ns
    return min(wanted, t_ns // width_ns * width_ns)


def _gpu_past(track: GpuTrack, t_ns: int) -> tuple[GpuPast, list[Gpu], list[AnyRecord]]:
    """A GPU's histories before its first exact sample, the samples, and the driver's own of the same time."""
    width = track.util.width_ns
    from_ns = _held_from(track.samples, t_ns, width)
    first, last = t_ns // width - HISTORY_COLUMNS, from_ns // width - 1
    past = GpuPast(
        util=track.util.cells(first, last), peak=track.peak.cells(first, last), memory=track.memory.cells(first, last)
    )
    there = _until(track.samples, t_ns)
    before = [sample for sample in there if sample.t < from_ns][-1:]
    samples = before + [sample for sample in there if sample.t >= from_ns]
    if not samples and track.samples and past.util:
        samples = [_gpu_of(track.samples[0], past.util[-1], past.memory, width)]
    return past, samples, [burst for burst in _until(track.bursts, t_ns) if burst.t >= from_ns]


def _gpu_of(later: Gpu, util: Cell, memory: tuple[Cell, ...], width_ns: int) -> Gpu:
    """A sample made of columns: what a device is, and the two figures that columns keep."""
    used = None
    if memory and memory[-1][0] == util[0] and later.mem_total_bytes:
        used = round(later.mem_total_bytes * memory[-1][2] / memory[-1][1] / 100)
    return Gpu(
        t=util[0] * width_ns, host=later.host, gpu_uuid=later.gpu_uuid, gpu_index=later.gpu_index,
        gpu_pci=later.gpu_pci, name=later.name, mem_total_bytes=later.mem_total_bytes, mem_shared=later.mem_shared,
        simulated=later.simulated, util_pct=util[2] / util[1], mem_used_bytes=used,
    )  # fmt: skip


def _host_past(track: HostTrack, t_ns: int) -> tuple[HostPast, list[Host]]:
    """A machine's histories before its first exact sample, and the samples."""
    width = track.cpu.width_ns
    from_ns = _held_from(track.samples, t_ns, width)
    first, last = t_ns // width - HISTORY_COLUMNS, from_ns // width - 1
    past = HostPast(cpu=track.cpu.cells(first, last), iowait=track.iowait.cells(first, last))
    there = _until(track.samples, t_ns)
    before = [sample for sample in there if sample.t < from_ns][-1:]
    samples = before + [sample for sample in there if sample.t >= from_ns]
    if not samples and track.samples and past.cpu:
        column, count, total, _, _ = past.cpu[-1]
        later = track.samples[0]
        samples = [Host(t=column * width, host=later.host, cores=later.cores, cpu_pct=total / count)]
    return past, samples
