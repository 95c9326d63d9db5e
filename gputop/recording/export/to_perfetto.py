"""Trace Event JSON, which ui.perfetto.dev and chrome://tracing open: steps as slices, gauges as counters.

A rank is a process with a track for its steps and one for the device; a GPU and a machine are processes that hold
counters. Phases are exclusive times without positions: inside a step they are drawn in one fixed order, and the tracks'
names say so.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

import msgspec

from gputop.recording.export.columns import CANONICAL
from gputop.recording.export.material import Material
from gputop.recording.export.sheet import Json, Sheet
from gputop.records import Alive, AnyRecord, Burst, Event, Fold, Gpu, Host, Record, Run, Step, Verdict, clean, supersede

SUFFIX = ".json"
TYPES: tuple[type[Record], ...] = (Run, Step, Fold, Alive, Gpu, Burst, Host, Event, Verdict)
TABLE = False
TO_STDOUT = True

EVENT_BYTES = 105
STEP_EVENTS = 7
"""The usual size of one event, and events that a step with device times becomes: what a file's size is guessed from."""

GIB = 1024**3

STEPS, DEVICE, OTHERS, VERDICTS = 1, 2, 3, 4

TRACKS = {
    STEPS: "steps (phases in a fixed order, not where they were)",
    DEVICE: "device time (phases in a fixed order, not where they were)",
    OTHERS: "steps of other loops (evaluation)",
    VERDICTS: "verdict",
}
"""Tracks of a rank, in the order in which they are shown."""

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
"""Gauges that become counters: the field, the counter's name and unit, and what the field is multiplied by."""

FACTS = ("n", "epoch", "samples", "queue_empty", "ready_batches", "loader_id", "kind", "partial")
"""Fields of a step that stand beside its slice."""

_ORDER = {name: index for index, name in enumerate(CANONICAL)} | {"other": len(CANONICAL) + 1}
_json = msgspec.json.Encoder()


def write(material: Material, types: tuple[type[Record], ...], out: BinaryIO) -> int:
    """Write the records of these types to `out`; returns how many. Raises OSError as `out` does."""
    wanted = tuple(cls for cls in types if cls in TYPES)
    drawing = Drawing(material)
    head = {"epoch_ns_of_ts_0": str(material.from_ns), "made_by": "gputop export"}
    out.write(b'{"otherData":' + _json.encode(head) + b',"traceEvents":[\n')
    count, first = 0, True
    for record in material.read(tuple(dict.fromkeys((Run, *wanted)))):
        count += isinstance(record, wanted)
        drawing.draw(record)
        first = _put(drawing.sheet, out, first)
    drawing.finish()
    _put(drawing.sheet, out, first)
    out.write(b"\n]}\n")
    return count


def _put(sheet: Sheet, out: BinaryIO, first: bool) -> bool:
    """Write what is on the sheet; returns whether the file still lacks its first event."""
    if not sheet.events:
        return first
    lines = b",\n".join([_json.encode(event) for event in sheet.events])
    out.write(lines if first else b",\n" + lines)
    sheet.events.clear()
    return False


class Drawing:
    """Draws records on a sheet."""

    def __init__(self, material: Material) -> None:
        self.sheet = Sheet(material.from_ns, TRACKS)
        self._runs = dict(material.runs)
        self._names: dict[str, str] = {}
        self._held: dict[str, Verdict] = {}
        self._busy: dict[int, tuple[int, int]] = {}
        self._last_ns = material.from_ns

    def draw(self, record: AnyRecord) -> None:
        """Draw one record."""
        self._last_ns = max(self._last_ns, record.t + (record.dur_ns if isinstance(record, Step) else 0))
        if isinstance(record, Run):
            known = self._runs.get(record.run_id)
            self._runs[record.run_id] = record if known is None else supersede(known, record)
            self._names.pop(record.run_id, None)
            self._rank(record.run_id)
        elif isinstance(record, Step):
            self._step(record)
        elif isinstance(record, Fold):
            self._fold(record)
        elif isinstance(record, Alive):
            self.sheet.counter(self._rank(record.run_id), record.t, "done", "steps", record.steps)
        elif isinstance(record, Gpu):
            pid = self.sheet.process("gpu", f"{record.host} {record.gpu_uuid}", _gpu_name(record))
            self._gauges(pid, record, GPU_GAUGES)
        elif isinstance(record, Burst):
            self._burst(record)
        elif isinstance(record, Host):
            pid = self.sheet.process("host", record.host, clean(f"host {record.host}", 120))
            self._gauges(pid, record, HOST_GAUGES)
        elif isinstance(record, Event):
            self._event(record)
        elif isinstance(record, Verdict):
            self._verdict(record)

    def finish(self) -> None:
        """Draw what needs an end to be known: the verdicts still in force."""
        for verdict in self._held.values():
            self._hold(verdict, self._last_ns)
        self._held.clear()

    def _rank(self, run_id: str) -> int:
        name = self._names.get(run_id)
        if name is None:
            name = self._names[run_id] = _run_name(self._runs.get(run_id), run_id)
        return self.sheet.process("run", run_id, name)

    def _step(self, step: Step) -> None:
        pid = self._rank(step.run_id)
        train = _trains(step)
        track = STEPS if train else OTHERS
        facts: Json = {name: value for name in FACTS if (value := getattr(step, name)) is not None}
        if step.sync_sites:
            facts["reads"] = [f"{one.site} {one.call} x{one.count}: {one.ns / 1e6:.3f} ms" for one in step.sync_sites]
        self.sheet.slice(pid, track, step.t, step.dur_ns, f"step {step.n}", facts)
        self._phases(pid, track, step.phases_ns, step.t, step.t + step.dur_ns, {})
        if step.gpu_ns and train:
            self._device(pid, step, step.gpu_ns)

    def _device(self, pid: int, step: Step, phases: dict[str, int]) -> None:
        """Device work in the order it was queued: it may begin late and run on into the next step, but not further."""
        end = step.t + step.dur_ns
        busy_until, latest = self._busy.get(pid, (0, 0))
        in_order = step.t >= latest
        start = max(step.t, busy_until) if in_order else step.t
        limit = end + step.dur_ns if in_order else end
        self._phases(pid, DEVICE, phases, start, limit, step.gpu_idle_ns or {})
        if in_order:
            self._busy[pid] = (min(start + sum(phases.values()), limit), step.t)

    def _phases(self, pid: int, track: int, phases: dict[str, int], start: int, end: int, idle: dict[str, int]) -> None:
        """Phases one after another from `start`; what would reach past `end` is cut, and its whole length told."""
        for name in sorted(phases, key=_place):
            ns = min(phases[name], end - start)
            if ns <= 0:
                continue
            facts: Json = {"ms": round(phases[name] / 1e6, 6)} if phases[name] > ns else {}
            if name in idle:
                facts["device idle ms"] = round(idle[name] / 1e6, 6)
            self.sheet.slice(pid, track, start, ns, name, facts)
            start += ns

    def _fold(self, fold: Fold) -> None:
        pid = self._rank(fold.run_id)
        if fold.steps > 0:
            self.sheet.counter(pid, fold.t, "summed", "steps", fold.steps)
            self.sheet.counter(pid, fold.t, "mean of the steps summed", "ms", fold.dur_ns / fold.steps / 1e6)

    def _gauges(self, pid: int, record: Gpu | Host, gauges: Iterable[tuple[str, str, str, float]]) -> None:
        for field, title, unit, factor in gauges:
            value = getattr(record, field)
            if value is not None:
                self.sheet.counter(pid, record.t, title, unit, value * factor)

    def _burst(self, burst: Burst) -> None:
        pid = self.sheet.known("gpu", f"{burst.host} {burst.gpu_uuid}")
        if pid is not None:
            for dt, value in zip(burst.dt_ns, burst.util_pct, strict=False):
                self.sheet.counter(pid, burst.t + dt, "utilization, the driver's own samples", "%", value)

    def _event(self, event: Event) -> None:
        pid = self._rank(event.run_id) if event.run_id is not None else None
        facts: Json = {} if event.dur_ns is None else {"ms": event.dur_ns / 1e6}
        self.sheet.instant(pid, STEPS, event.t, f"{event.kind} {event.label}" if event.label else event.kind, facts)

    def _verdict(self, verdict: Verdict) -> None:
        held = self._held.get(verdict.run_id)
        if held is None or verdict.t < held.t:
            self._held.setdefault(verdict.run_id, verdict)
        elif held.cause != verdict.cause or bool(held.tentative) != bool(verdict.tentative):
            self._hold(held, verdict.t)
            self._held[verdict.run_id] = verdict

    def _hold(self, verdict: Verdict, t_ns: int) -> None:
        """Draw a verdict as in force until then."""
        facts: Json = {"headline": clean(verdict.headline, 400), "confidence": verdict.confidence}
        if verdict.advice:
            facts["do"] = clean(verdict.advice[0].do, 400)
        if verdict.simulated:
            facts["simulated"] = True
        name = f"{verdict.cause} (tentative)" if verdict.tentative else verdict.cause
        length = max(0, t_ns - verdict.t)
        self.sheet.slice(self._rank(verdict.run_id), VERDICTS, verdict.t, length, name, facts)


def _place(phase: str) -> tuple[int, str]:
    return _ORDER.get(phase, len(CANONICAL)), phase


def _trains(step: Step) -> bool:
    """Whether a step is of the training loop, as far as one step by itself tells."""
    return bool(step.had_backward) or (step.kind != "eval" and step.had_backward is None)


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
