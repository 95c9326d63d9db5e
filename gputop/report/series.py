"""What is drawn over time: each figure in at most some hundred columns, with the extremes of what a column covers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gputop.diagnosis.numbers import ranked
from gputop.recording.past import RECORDED
from gputop.records import AnyRecord, Burst, Event, Fold, Gpu, Host, Step
from gputop.tracks import RunTrack, S, within

COLUMNS = 1500
"""Most columns of a chart: more than a screen has pixels for, few enough for a page that a mail can carry."""

WIDTHS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)
"""Widths of a column; from a minute on whole minutes, so that a recording's minutes fit into them."""

MARKS = 200
"""Events marked on the time axis; of more, evenly spaced ones are kept, rare kinds first."""

Line = tuple[float | None, ...]
"""One value a column, None where nothing was measured."""

MS = 1e-6


class Axis(msgspec.Struct, frozen=True):
    """Columns of equal width: column k covers [from_ns + k * width_ns, from_ns + (k + 1) * width_ns)."""

    from_ns: int
    width_ns: int
    columns: int

    def column(self, t_ns: int) -> int:
        """The column of a moment, the nearest one for moments outside."""
        return min(max(0, (t_ns - self.from_ns) // self.width_ns), self.columns - 1)


class RunSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Step times in ms (median, shortest, longest) and shares of step time in percent, which sum to 100."""

    p50: Line = ()
    low: Line = ()
    high: Line = ()
    phases: dict[str, Line] = {}


class GpuSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Means of a column; `peak` is the highest utilization seen in it, the driver's own samples included."""

    util: Line = ()
    peak: Line = ()
    memory_gib: Line = ()
    power_w: Line = ()


class HostSeries(msgspec.Struct, frozen=True, kw_only=True):
    """Means of a column, in percent of all cores."""

    cpu: Line = ()
    iowait: Line = ()


class Mark(msgspec.Struct, frozen=True):
    """Something that happened at a moment."""

    t_ns: int
    kind: str
    label: str | None
    run_id: str | None


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """All that is drawn over time."""

    axis: Axis
    runs: dict[str, RunSeries] = {}
    gpus: dict[str, GpuSeries] = {}
    hosts: dict[str, HostSeries] = {}
    marks: tuple[Mark, ...] = ()


def axis(from_ns: int, to_ns: int, least_s: int = 1) -> Axis:
    """The axis of a span: the finest width of `least_s` or more that needs at most COLUMNS columns."""
    span = max(1, to_ns - from_ns)
    fitting = [w for w in WIDTHS_S if w >= least_s and span <= w * S * COLUMNS]
    width = (fitting[0] if fitting else -(-span // (S * COLUMNS))) * S
    return Axis(from_ns, width, -(-span // width))


def marks(events: Iterable[Event]) -> tuple[Mark, ...]:
    """The events worth a mark, in time order."""
    by_kind: dict[str, list[Mark]] = {}
    for event in (one for one in events if one.kind != RECORDED):
        by_kind.setdefault(event.kind, []).append(Mark(event.t, event.kind, event.label, event.run_id))
    kept: list[Mark] = []
    for turn, group in enumerate(sorted(by_kind.values(), key=len)):
        room = max(1, (MARKS - len(kept)) // (len(by_kind) - turn))
        stride = -(-len(group) // room)
        kept += group[::stride]
    return tuple(sorted(kept, key=lambda mark: mark.t_ns)[:MARKS])


class Means:
    """Means by column."""

    def __init__(self, columns: int) -> None:
        self.total = [0.0] * columns
        self.count = [0] * columns

    def add(self, column: int, value: float | None) -> None:
        """Count a value; None is none."""
        if value is not None:
            self.total[column] += value
            self.count[column] += 1

    def line(self, scale: float = 1.0) -> Line:
        """The means, each times `scale`."""
        return tuple(
            scale * total / count if count else None for total, count in zip(self.total, self.count, strict=True)
        )


class Peaks:
    """Maxima by column."""

    def __init__(self, columns: int) -> None:
        self.high: list[float | None] = [None] * columns

    def add(self, column: int, value: float | None) -> None:
        """Count a value; None is none."""
        if value is not None and (self.high[column] is None or value > (self.high[column] or 0.0)):
            self.high[column] = value


class StepColumns:
    """The steps of one run by column. One that is longer than a column stands in every column it covers."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.durations: list[list[float]] = [[] for _ in range(axis.columns)]
        self.ns = [0.0] * axis.columns
        self.parts: dict[str, list[float]] = {}
        self.folded: list[tuple[float, float] | None] = [None] * axis.columns

    def add(self, step: Step) -> None:
        """Take in a train step."""
        first, last = self.axis.column(step.t), self.axis.column(step.t + max(0, step.dur_ns - 1))
        phases = within(step.phases_ns, step.dur_ns)
        for column in range(first, last + 1):
            self.durations[column].append(step.dur_ns * MS)
            share = 1.0 if first == last else self._overlap(step, column)
            self._share(column, step.dur_ns, phases, share)

    def add_fold(self, fold: Fold) -> None:
        """Take in steps known only as a sum."""
        column = self.axis.column(fold.t)
        self._share(column, fold.dur_ns, within(fold.phases_ns, fold.dur_ns), 1.0)
        mean = fold.dur_ns / max(1, fold.steps)
        low, high = (fold.min_ns or mean) * MS, (fold.max_ns or mean) * MS
        known = self.folded[column]
        self.folded[column] = (low, high) if known is None else (min(known[0], low), max(known[1], high))

    def _overlap(self, step: Step, column: int) -> float:
        start = self.axis.from_ns + column * self.axis.width_ns
        covered = min(step.t + step.dur_ns, start + self.axis.width_ns) - max(step.t, start)
        return max(0, covered) / step.dur_ns if step.dur_ns else 0.0

    def _share(self, column: int, ns: float, phases: dict[str, int], share: float) -> None:
        self.ns[column] += ns * share
        for name, part in phases.items():
            row = self.parts.get(name)
            if row is None:
                row = self.parts[name] = [0.0] * self.axis.columns
            row[column] += part * share

    def series(self) -> RunSeries:
        """The columns as drawn."""
        p50: list[float | None] = []
        low: list[float | None] = []
        high: list[float | None] = []
        for durations, folded in zip(self.durations, self.folded, strict=True):
            ordered = sorted(durations)
            ends = ([ordered[0], ordered[-1]] if ordered else []) + list(folded or ())
            p50.append(ranked(ordered, 0.5) if ordered else None)
            low.append(min(ends, default=None))
            high.append(max(ends, default=None))
        return RunSeries(p50=tuple(p50), low=tuple(low), high=tuple(high), phases=shares(self.parts, self.ns))


def shares(parts: dict[str, list[float]], whole: Sequence[float]) -> dict[str, Line]:
    """Parts in percent of the whole, column by column, with `other` as what is left."""
    if not any(whole):
        return {}
    lines = {
        name: tuple(100 * ns / all_ns if all_ns else None for ns, all_ns in zip(row, whole, strict=True))
        for name, row in parts.items()
        if any(row)
    }
    known = [sum(line[column] or 0.0 for line in lines.values()) for column in range(len(whole))]
    lines["other"] = tuple(max(0.0, 100 - sum_) if all_ns else None for sum_, all_ns in zip(known, whole, strict=True))
    return lines


def of_records(records: Iterable[AnyRecord], tracks: dict[str, RunTrack], axis: Axis) -> Series:
    """The series of a whole trace. `tracks` decide which steps trained."""
    steps: dict[str, StepColumns] = {run_id: StepColumns(axis) for run_id in tracks}
    gpus: dict[str, GpuColumns] = {}
    hosts: dict[str, HostColumns] = {}
    events: list[Event] = []
    for record in records:
        if isinstance(record, Step):
            track = tracks.get(record.run_id)
            if track is not None and not record.partial and track.kind(record) != "eval":
                steps[record.run_id].add(record)
        elif isinstance(record, Fold):
            if record.run_id in steps and record.kind in (None, "train"):
                steps[record.run_id].add_fold(record)
        elif isinstance(record, (Gpu, Burst)):
            gpus.setdefault(record.gpu_uuid, GpuColumns(axis)).add(record)
        elif isinstance(record, Host):
            hosts.setdefault(record.host, HostColumns(axis)).add(record)
        elif isinstance(record, Event):
            events.append(record)
    return Series(
        axis=axis,
        runs={run_id: columns.series() for run_id, columns in steps.items()},
        gpus={uuid: columns.series() for uuid, columns in gpus.items()},
        hosts={host: columns.series() for host, columns in hosts.items()},
        marks=marks(events),
    )


class GpuColumns:
    """The samples of one GPU by column."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.util, self.memory, self.power = Means(axis.columns), Means(axis.columns), Means(axis.columns)
        self.peak = Peaks(axis.columns)

    def add(self, record: Gpu | Burst) -> None:
        """Take in a sample."""
        if isinstance(record, Burst):
            for dt, value in zip(record.dt_ns, record.util_pct, strict=False):
                if 0 <= value <= 100:
                    self.peak.add(self.axis.column(record.t + dt), value)
            return
        column = self.axis.column(record.t)
        if record.util_pct is not None and 0 <= record.util_pct <= 100:
            self.util.add(column, record.util_pct)
            self.peak.add(column, record.util_pct)
        self.memory.add(column, record.mem_used_bytes)
        self.power.add(column, record.power_w)

    def series(self) -> GpuSeries:
        """The columns as drawn."""
        return GpuSeries(
            util=self.util.line(),
            peak=tuple(self.peak.high),
            memory_gib=self.memory.line(1 / 1024**3),
            power_w=self.power.line(),
        )


class HostColumns:
    """The samples of one machine by column."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self.cpu, self.iowait = Means(axis.columns), Means(axis.columns)

    def add(self, host: Host) -> None:
        """Take in a sample."""
        self.cpu.add(self.axis.column(host.t), host.cpu_pct)
        self.iowait.add(self.axis.column(host.t), host.iowait_pct)

    def series(self) -> HostSeries:
        """The columns as drawn."""
        return HostSeries(cpu=self.cpu.line(), iowait=self.iowait.line())
