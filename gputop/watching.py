"""Watching, without threads or clocks: a timeline and one judge a run, turned into a view when asked."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from gputop.diagnosis.evidence import gather
from gputop.diagnosis.verdict import Judge, judge_idle
from gputop.records import AnyRecord, Gpu, Sampler, Step, Verdict
from gputop.tiers import percentile
from gputop.timeline import GpuTrack, HostTrack, RunTrack, S, Timeline
from gputop.view import GpuView, HostView, RunView, Segment, Share, View
from gputop.window import Window

HISTORY_COLUMNS = 300
"""Columns of history in a view: as many as the widest screen can draw."""

SHORT_COLUMNS = 60
"""The same where there are more than MANY runs."""

MANY = 16
"""Runs that are drawn afresh for each view; with more, each is drawn when it is judged."""

JUDGED_AT_ONCE = 64
"""Runs judged in one tick: with more, they take turns, so that a thousand ranks cost no more than these."""

FORGET_ENDED_NS = 600 * S
"""A run that ended stays in view this long."""

MS = 1e6


class Watch:
    """What is watched: add records as they come, tick about once a second, take a view whenever one is wanted."""

    def __init__(
        self, source: str = "live", *, column_ns: int = 2 * S, hostname: str = "", simulated: bool = False
    ) -> None:
        self.timeline = Timeline(column_ns)
        self.judges: dict[str, Judge] = {}
        self.verdicts: dict[str, Verdict] = {}
        self.windows: dict[str, Window] = {}
        self._rows: dict[str, RunView] = {}
        self._judged_ns: dict[str, int] = {}
        self.source = source
        self.hostname = hostname
        self.simulated = simulated
        self.started_ns: int | None = None

    def add(self, record: AnyRecord) -> None:
        """Take in one record."""
        self.timeline.add(record)

    def tick(self, now_ns: int) -> dict[str, Verdict]:
        """Judge every run that is still of interest; returns the verdicts by run."""
        if self.started_ns is None:
            self.started_ns = now_ns
        for run_id in self._due():
            window = self.timeline.window(run_id, now_ns)
            judge = self.judges.setdefault(run_id, Judge())
            self.windows[run_id] = window
            self.verdicts[run_id] = judge.update(window)
            self._judged_ns[run_id] = now_ns
            if len(self.timeline.runs) > MANY:
                self._rows[run_id] = self._run_view(self.timeline.runs[run_id], self._axis(now_ns))
        for run_id in [one for one in self.judges if one not in self.timeline.runs]:
            for held in (self.judges, self.verdicts, self.windows, self._judged_ns, self._rows):
                held.pop(run_id, None)
        return self.verdicts

    def _due(self) -> list[str]:
        """The runs to judge now: all that go on, the longest unjudged first where they must take turns."""
        going = [
            run_id
            for run_id, track in self.timeline.runs.items()
            if track.ended is None or self._judged_ns.get(run_id, -1) < (track.last_end or 0)
        ]
        if len(going) > JUDGED_AT_ONCE:
            going.sort(key=lambda run_id: self._judged_ns.get(run_id, -1))
        return going[:JUDGED_AT_ONCE]

    def _axis(self, now_ns: int) -> tuple[int, int]:
        """The first and last column of the histories."""
        width = self.timeline.column_ns
        columns = HISTORY_COLUMNS if len(self.timeline.runs) <= MANY else SHORT_COLUMNS
        last = now_ns // width
        return min(last, max(last - columns + 1, (self.timeline.first_ns or now_ns) // width)), last

    def view(
        self, now_ns: int, warnings: tuple[str, ...] = (), waiting: str | None = None, *, forget: bool = True
    ) -> View:
        """Everything as of `now_ns`; with `forget`, without runs that ended long ago."""
        timeline = self.timeline
        started = self.started_ns if self.started_ns is not None else now_ns
        axis = self._axis(now_ns)
        runs = tuple(
            self._rows[run_id] if len(timeline.runs) > MANY and run_id in self._rows else self._run_view(track, axis)
            for run_id, track in sorted(timeline.runs.items(), key=_run_order)
            if run_id in self.verdicts and not (forget and _forgotten(track, now_ns))
        )
        host = next(iter(timeline.hosts.values()), None)
        trouble = _trouble(timeline.samplers.values())
        return View(
            now_ns=now_ns,
            source=self.source,
            hostname=self.hostname or (runs[0].run.host if runs else ""),
            column_ns=timeline.column_ns,
            last_column=axis[1],
            started_ns=started,
            simulated=self.simulated or any(run.run.simulated for run in runs),
            runs=runs,
            gpus=tuple(
                _gpu_view(track, now_ns, axis, trouble)
                for _, track in sorted(timeline.gpus.items(), key=_gpu_order)
                if track.samples
            ),
            host=_host_view(host, now_ns, axis) if host is not None and host.samples else None,
            samplers=tuple(timeline.samplers.values()),
            events=tuple(timeline.events),
            warnings=warnings,
            waiting=None if runs else waiting,
        )

    def idle(self, now_ns: int) -> Verdict:
        """The verdict when there is no run."""
        host = next(iter(self.timeline.hosts.values()), None)
        return judge_idle(now_ns, self.hostname or (host.samples[-1].host if host is not None and host.samples else ""))

    def _run_view(self, track: RunTrack, axis: tuple[int, int]) -> RunView:
        run_id = track.run.run_id
        window = self.windows[run_id]
        verdict = self.verdicts[run_id]
        train = [step for step in window.steps if step.kind != "eval"]
        uuid, match = self.timeline.match(track.run)
        first, last = axis
        segments = tuple(self.judges[run_id].segments)
        loader = _train_loader(track, train)
        step_ms = _step_ms(train)
        rate, sample_rate = _rates(train)
        return RunView(
            run=track.run,
            state=_state(track, verdict),
            verdict=verdict,
            steps_total=max(track.train_steps, (track.alive.steps if track.alive else 0)),
            step_ms=step_ms,
            steps_per_s=rate,
            samples_per_s=sample_rate,
            ledger=tuple(Share(bucket.phase, bucket.pct, bucket.ms) for bucket in gather(window).ledger),
            loader=track.loaders.get(loader) if loader is not None else None,
            model=track.model,
            process=track.process[-1] if track.process else None,
            alive=track.alive,
            gpu_uuid=uuid,
            gpu_match=match,
            clock=verdict.clock,
            gaps=track.gaps,
            dropped=(track.alive.dropped or 0) if track.alive else 0,
            first_ns=track.first_t,
            last_ns=track.last_end,
            step_history=_scaled(track.fine.means(first, last), 1 / MS),
            step_max_history=_scaled(track.fine.highs(first, last), 1 / MS),
            cause_history=_causes(segments, axis, self.timeline.column_ns),
            segments=segments,
            phase_history=_phase_history(track, axis),
        )


def _forgotten(track: RunTrack, now_ns: int) -> bool:
    return track.ended is not None and (track.last_end or 0) < now_ns - FORGET_ENDED_NS


def _run_order(item: tuple[str, RunTrack]) -> tuple[bool, str, int, int]:
    track = item[1]
    return (track.ended is not None, track.run.script or "", track.run.rank or 0, track.run.t)


def _gpu_order(item: tuple[str, GpuTrack]) -> tuple[int, str]:
    samples = item[1].samples
    index = samples[-1].gpu_index if samples else None
    return (index if index is not None else 1 << 16, item[0])


def _state(track: RunTrack, verdict: Verdict) -> str:
    if track.ended is not None:
        return track.ended
    if track.last_end is None:
        return "starting"
    return "stalled" if verdict.cause == "stalled" else "training"


def _train_loader(track: RunTrack, train: list[Step]) -> int | None:
    """The loader that feeds training: that of the latest train step, else the only one there is."""
    for step in reversed(train):
        if step.loader_id is not None and step.loader_id in track.loaders:
            return step.loader_id
    return next(iter(track.loaders), None) if len(track.loaders) == 1 else None


def _step_ms(train: list[Step]) -> dict[str, float] | None:
    if not train:
        return None
    durations = [step.dur_ns / MS for step in train]
    return {
        "p50": percentile(durations, 0.5) or 0.0,
        "p95": percentile(durations, 0.95) or 0.0,
        "max": max(durations),
    }


def _rates(train: list[Step]) -> tuple[float | None, float | None]:
    """Steps and samples a second over the wall time that the train steps span."""
    if not train:
        return None, None
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


def _trouble(samplers: Iterable[Sampler]) -> str | None:
    """What keeps GPU samples from coming, in a few words."""
    for sampler in samplers:
        if sampler.backend != "host" and sampler.state in ("silent", "restarted"):
            return "driver silent" + (f": {sampler.call.partition(' ')[0]}" if sampler.call else "")
    return None


def _gpu_view(track: GpuTrack, now_ns: int, axis: tuple[int, int], trouble: str | None) -> GpuView:
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
    points = sorted(
        (burst.t + dt, value)
        for burst in track.bursts
        if burst.t > now_ns - 20 * S
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


def _host_view(track: HostTrack, now_ns: int, axis: tuple[int, int]) -> HostView:
    host = track.samples[-1]
    first, last = axis
    return HostView(
        host=host,
        age_ns=max(0, now_ns - host.t),
        cpu_history=track.cpu.means(first, last),
        iowait_history=track.iowait.means(first, last),
    )
