"""Trace Event JSON, which ui.perfetto.dev and chrome://tracing open: steps as slices, gauges as counters.

A rank is a process with a track for its steps and one for the device; a GPU and a machine are processes that hold
counters. Phases are exclusive times without positions: inside a step they are drawn in one fixed order, and the tracks'
names say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from gputop.recording.export.columns import CANONICAL
from gputop.recording.export.material import Material
from gputop.records import Alive, AnyRecord, Burst, Event, Fold, Gpu, Host, Record, Run, Step, Verdict, clean, supersede

SUFFIX = ".json"
TYPES: tuple[type[Record], ...] = (Run, Step, Fold, Alive, Gpu, Burst, Host, Event, Verdict)
TABLE = False
TO_STDOUT = True

EVENT_BYTES = 130
STEP_EVENTS = 9
"""The usual size of one event, and events that a step with device times becomes: what a file's size is guessed from."""

GIB = 1024**3

STEPS, DEVICE, OTHERS, VERDICTS = 1, 2, 3, 4
"""Tracks of a rank: its thread ids are its process id plus these. Ids are unique over all processes and threads, a
process's own among them: Perfetto takes equal thread ids for one thread."""

STRIDE = 10
"""Distance of process ids."""

TRACKS = {
    STEPS: "steps (phases in a fixed order, not where they were)",
    DEVICE: "device time (phases in a fixed order, not where they were)",
    OTHERS: "steps of other loops (evaluation)",
    VERDICTS: "verdict",
}
GPUS_FROM, HOSTS_FROM = 1_000_000, 2_000_000
"""Process ids of the first GPU and machine, above those of all ranks."""

GPU_GAUGES = (
    ("util_pct", "utilization", "%", 1.0), ("sm_active_pct", "SM active", "%", 1.0),
    ("mem_used_bytes", "memory", "GiB", 1.0 / GIB), ("power_w", "power", "W", 1.0), ("temp_c", "temperature", "C", 1.0),
    ("sm_clock_mhz", "SM clock", "MHz", 1.0), ("pcie_rx_bytes_s", "PCIe received", "MB/s", 1e-6),
    ("pcie_tx_bytes_s", "PCIe sent", "MB/s", 1e-6),
)  # fmt: skip
HOST_GAUGES = (
    ("cpu_pct", "CPU", "%", 1.0), ("iowait_pct", "iowait", "%", 1.0), ("steal_pct", "steal", "%", 1.0),
    ("mem_used_bytes", "memory", "GiB", 1.0 / GIB), ("disk_read_bytes_s", "disk read", "MB/s", 1e-6),
    ("net_recv_bytes_s", "network received", "MB/s", 1e-6),
)  # fmt: skip
"""Gauges that become counters: the field, the counter's name and unit (viewers show the two together), and what the
field is multiplied by."""

_ORDER = {name: index for index, name in enumerate(CANONICAL)} | {"other": len(CANONICAL) + 1}
_json = msgspec.json.Encoder()

Json = dict[str, Any]


def write(material: Material, types: tuple[type[Record], ...], out: BinaryIO) -> int:
    """Write the records of these types to `out`; returns how many. Raises OSError as `out` does."""
    wanted = tuple(cls for cls in types if cls in TYPES)
    drawing = Drawing(material)
    head = {"epoch_ns_of_ts_0": str(material.from_ns), "made_by": "gputop export"}
    out.write(b'{"otherData":' + _json.encode(head) + b',"traceEvents":[\n')
    count, lead = 0, b""
    for record in material.read(tuple(dict.fromkeys((Run, *wanted)))):
        count += isinstance(record, wanted)
        for event in drawing.draw(record):
            out.write(lead + _json.encode(event))
            lead = b",\n"
    for event in drawing.finish():
        out.write(lead + _json.encode(event))
        lead = b",\n"
    out.write(b"\n]}\n")
    return count


class Drawing:
    """Turns records into trace events, naming each process and track before its first use."""

    def __init__(self, material: Material) -> None:
        self._from_ns = material.from_ns
        self._runs = dict(material.runs)
        self._pids: dict[tuple[str, str], int] = {}
        self._tracks: set[int] = set()
        self._named: dict[int, str] = {}
        self._held: dict[str, Verdict] = {}
        self._busy: dict[int, tuple[int, int]] = {}
        self._last_ns = material.from_ns

    def draw(self, record: AnyRecord) -> Iterator[Json]:
        """The events of one record."""
        end = record.t + (record.dur_ns if isinstance(record, Step) else 0)
        self._last_ns = max(self._last_ns, end)
        if isinstance(record, Run):
            known = self._runs.get(record.run_id)
            self._runs[record.run_id] = record if known is None else supersede(known, record)
            yield from self._rank(record.run_id)[1]
        elif isinstance(record, Step):
            yield from self._step(record)
        elif isinstance(record, Fold):
            yield from self._fold(record)
        elif isinstance(record, Alive):
            pid, named = self._rank(record.run_id)
            yield from named
            yield self._counter(pid, record.t, "done", "steps", record.steps)
        elif isinstance(record, Gpu):
            yield from self._gauges(record, "gpu", f"{record.host} {record.gpu_uuid}", _gpu_name(record), GPU_GAUGES)
        elif isinstance(record, Burst):
            yield from self._burst(record)
        elif isinstance(record, Host):
            yield from self._gauges(record, "host", record.host, f"host {record.host}", HOST_GAUGES)
        elif isinstance(record, Event):
            yield from self._event(record)
        elif isinstance(record, Verdict):
            yield from self._verdict(record)

    def finish(self) -> Iterator[Json]:
        """What could only be drawn once the end was known: the verdicts still in force."""
        for verdict in self._held.values():
            yield from self._held_until(verdict, self._last_ns)
        self._held.clear()

    def _step(self, step: Step) -> Iterator[Json]:
        pid, named = self._rank(step.run_id)
        yield from named
        train = _trains(step)
        track = STEPS if train else OTHERS
        yield from self._track(pid, track)
        facts = {
            name: value
            for name in ("n", "epoch", "samples", "queue_empty", "ready_batches", "loader_id", "kind", "partial")
            if (value := getattr(step, name)) is not None
        }
        if step.sync_sites:
            facts["reads"] = [f"{one.site} {one.call} x{one.count}: {one.ns / 1e6:.3f} ms" for one in step.sync_sites]
        yield self._slice(pid, track, step.t, step.dur_ns, f"step {step.n}", facts)
        yield from self._phases(pid, track, step.phases_ns, step.t, step.t + step.dur_ns, {})
        if step.gpu_ns and train:
            yield from self._track(pid, DEVICE)
            yield from self._device(pid, step, step.gpu_ns)

    def _device(self, pid: int, step: Step, phases: dict[str, int]) -> Iterator[Json]:
        """Device work in the order it was queued: it may begin late and run on into the next step, but not further."""
        end = step.t + step.dur_ns
        busy_until, latest = self._busy.get(pid, (0, 0))
        in_order = step.t >= latest
        start = max(step.t, busy_until) if in_order else step.t
        limit = end + step.dur_ns if in_order else end
        yield from self._phases(pid, DEVICE, phases, start, limit, step.gpu_idle_ns or {})
        if in_order:
            self._busy[pid] = (min(start + sum(phases.values()), limit), step.t)

    def _phases(
        self, pid: int, track: int, phases: dict[str, int], start: int, end: int, idle: dict[str, int]
    ) -> Iterator[Json]:
        """Phases one after another from `start`; what would reach past `end` is cut, and its whole length told."""
        for name in sorted(phases, key=_place):
            ns = min(phases[name], end - start)
            if ns <= 0:
                continue
            facts: Json = {"ms": round(phases[name] / 1e6, 6)} if phases[name] > ns else {}
            if name in idle:
                facts["device idle ms"] = round(idle[name] / 1e6, 6)
            yield self._slice(pid, track, start, ns, clean(name, 60), facts)
            start += ns

    def _fold(self, fold: Fold) -> Iterator[Json]:
        pid, named = self._rank(fold.run_id)
        yield from named
        if fold.steps > 0:
            yield self._counter(pid, fold.t, "summed", "steps", fold.steps)
            yield self._counter(pid, fold.t, "mean of the steps summed", "ms", fold.dur_ns / fold.steps / 1e6)

    def _gauges(
        self, record: Gpu | Host, kind: str, key: str, name: str, gauges: Iterable[tuple[str, str, str, float]]
    ) -> Iterator[Json]:
        pid, named = self._process(kind, key, name)
        yield from named
        for field, title, unit, factor in gauges:
            value = getattr(record, field)
            if value is not None and math.isfinite(value):
                yield self._counter(pid, record.t, title, unit, value * factor)

    def _burst(self, burst: Burst) -> Iterator[Json]:
        key = ("gpu", f"{burst.host} {burst.gpu_uuid}")
        if key not in self._pids:
            return
        for dt, value in zip(burst.dt_ns, burst.util_pct, strict=False):
            if math.isfinite(value):
                yield self._counter(self._pids[key], burst.t + dt, "utilization, the driver's own samples", "%", value)

    def _event(self, event: Event) -> Iterator[Json]:
        name = clean(f"{event.kind} {event.label}" if event.label else event.kind, 120)
        facts: Json = {} if event.dur_ns is None else {"ms": event.dur_ns / 1e6}
        base = {"name": name, "cat": "event", "ph": "i", "ts": self._ts(event.t), "args": facts}
        if event.run_id is None:
            yield base | {"s": "g", "pid": 0, "tid": 0}
            return
        pid, named = self._rank(event.run_id)
        yield from named
        yield from self._track(pid, STEPS)
        yield base | {"s": "p", "pid": pid, "tid": _tid(pid, STEPS)}

    def _verdict(self, verdict: Verdict) -> Iterator[Json]:
        held = self._held.get(verdict.run_id)
        if held is None or verdict.t < held.t:
            self._held.setdefault(verdict.run_id, verdict)
        elif held.cause != verdict.cause or bool(held.tentative) != bool(verdict.tentative):
            yield from self._held_until(held, verdict.t)
            self._held[verdict.run_id] = verdict

    def _held_until(self, verdict: Verdict, t_ns: int) -> Iterator[Json]:
        pid, named = self._rank(verdict.run_id)
        yield from named
        yield from self._track(pid, VERDICTS)
        facts: Json = {"headline": clean(verdict.headline, 400), "confidence": verdict.confidence}
        if verdict.advice:
            facts["do"] = clean(verdict.advice[0].do, 400)
        if verdict.simulated:
            facts["simulated"] = True
        name = f"{verdict.cause} (tentative)" if verdict.tentative else verdict.cause
        yield self._slice(pid, VERDICTS, verdict.t, max(0, t_ns - verdict.t), clean(name, 60), facts)

    def _rank(self, run_id: str) -> tuple[int, list[Json]]:
        run = self._runs.get(run_id)
        return self._process("run", run_id, _run_name(run, run_id))

    def _process(self, kind: str, key: str, name: str) -> tuple[int, list[Json]]:
        """A process's id, and the events that name it where it is new or its name has changed."""
        pid = self._pids.get((kind, key))
        if pid is None:
            base = {"run": STRIDE, "gpu": GPUS_FROM, "host": HOSTS_FROM}[kind]
            pid = self._pids[kind, key] = base + STRIDE * sum(1 for one, _ in self._pids if one == kind)
        if self._named.get(pid) == name:
            return pid, []
        self._named[pid] = name
        order = {"name": "process_sort_index", "ph": "M", "pid": pid, "tid": pid, "args": {"sort_index": pid}}
        return pid, [{"name": "process_name", "ph": "M", "pid": pid, "tid": pid, "args": {"name": name}}, order]

    def _track(self, pid: int, track: int) -> Iterator[Json]:
        tid = _tid(pid, track)
        if tid in self._tracks:
            return
        self._tracks.add(tid)
        yield {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": TRACKS[track]}}
        yield {"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": tid, "args": {"sort_index": track}}

    def _slice(self, pid: int, track: int, t_ns: int, dur_ns: int, name: str, facts: Json) -> Json:
        event: Json = {
            "name": name, "cat": "gputop", "ph": "X", "ts": self._ts(t_ns), "dur": _us(dur_ns), "pid": pid,
            "tid": _tid(pid, track),
        }  # fmt: skip
        if facts:
            event["args"] = facts
        return event

    def _counter(self, pid: int, t_ns: int, name: str, unit: str, value: float) -> Json:
        return {"name": name, "ph": "C", "ts": self._ts(t_ns), "pid": pid, "tid": pid, "args": {unit: round(value, 4)}}

    def _ts(self, t_ns: int) -> float:
        """Microseconds since the recording's first moment: epoch times would lose their nanoseconds in a double."""
        return _us(t_ns - self._from_ns)


def _us(ns: int) -> float:
    """Microseconds such that whoever multiplies them by 1000 and cuts off the rest, as Perfetto does, has these ns.

    A nanosecond lost would let neighbouring slices overlap, and overlapping slices are dropped.
    """
    us = ns / 1000
    return us if int(us * 1000.0) == ns else math.nextafter(us, math.copysign(math.inf, ns))


def _place(phase: str) -> tuple[int, str]:
    return _ORDER.get(phase, len(CANONICAL)), phase


def _trains(step: Step) -> bool:
    """Whether a step is of the training loop, as far as one step by itself tells."""
    return bool(step.had_backward) or (step.kind != "eval" and step.had_backward is None)


def _tid(pid: int, track: int) -> int:
    return pid + track


def _run_name(run: Run | None, run_id: str) -> str:
    if run is None:
        return clean(run_id, 80)
    parts = [f"rank {run.rank}" if run.rank is not None and (run.world_size or 1) > 1 else None, run.script or run_id]
    parts += [f"pid {run.pid} on {run.host}" if run.pid else None, "simulated GPU" if run.simulated else None]
    return clean(" · ".join(part for part in parts if part), 120)


def _gpu_name(gpu: Gpu) -> str:
    parts = [f"GPU {gpu.gpu_index if gpu.gpu_index is not None else '?'}", gpu.name, f"on {gpu.host}"]
    parts += ["simulated" if gpu.simulated else None]
    return clean(" · ".join(part for part in parts if part), 120)
