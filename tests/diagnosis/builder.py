"""Traces for tests of the diagnosis: steps with seeded jitter and samples beside them, as records and as windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from gputop.diagnosis.verdict import judge
from gputop.records import (
    Alive,
    AnyRecord,
    Event,
    Gpu,
    Host,
    Loader,
    Model,
    Process,
    Run,
    Sampler,
    Step,
    SyncSite,
    Verdict,
    Worker,
)
from gputop.report.judged import judge_trace
from gputop.timeline import Timeline
from gputop.window import Window

T0 = 1_700_000_000_000_000_000
"""When traces begin, epoch ns."""

MS = 1_000_000
S = 1_000_000_000
RUN_ID = "run-1"
PID = 4242
UUID = "GPU-1"
HOST = "box"

Extra = Callable[[int], dict[str, Any]]


def trace(
    phases: dict[str, float],
    *,
    n: int = 120,
    ms: float | None = None,
    jitter: float = 0.05,
    seed: int = 1,
    t0: int = T0,
    idle: dict[str, float] | None = None,
    device: dict[str, float] | None = None,
    each: Extra | None = None,
    run: dict[str, Any] | None = None,
    loader: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
    gpu: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
    process: dict[str, Any] | None = None,
    no_gpu: bool = False,
    extra: Iterable[AnyRecord] = (),
    samples_s: float = 1.0,
    **fields: Any,
) -> list[AnyRecord]:
    """A run's records. Phases, `idle` (gpu_idle_ns) and `device` (gpu_ns) are ms per step; `ms` the step's length.

    What is left of `ms` is `other`. `each(i)` gives fields of one step, its `phases` in ms among them. `gpu`, `host`
    and `process` are sampled every `samples_s`; None means no such records.
    """
    random = Random(seed)
    records: list[AnyRecord] = [Run(t=t0, run_id=RUN_ID, pid=PID, host=HOST, **({"device": "cuda:0"} | (run or {})))]
    if no_gpu:
        records.append(Sampler(t=t0, host=HOST, backend="nvml", state="absent", devices=0, why="no NVIDIA driver"))
    if loader is not None:
        records.append(Loader(t=t0, run_id=RUN_ID, loader_id=0, **loader))
    if model is not None:
        records.append(Model(t=t0, run_id=RUN_ID, **model))
    t, steps = t0, []
    for i in range(n):
        more = dict(each(i)) if each else {}
        mine = phases | more.pop("phases", {})
        wide = 1 + jitter * random.uniform(-1, 1)
        columns = {name: round(value * wide * MS) for name, value in mine.items()}
        rest = max(0.0, (ms or 0.0) - sum(phases.values())) if ms is not None else 0.0
        length = sum(columns.values()) + round((rest + more.pop("other_ms", 0.0)) * wide * MS)
        made: dict[str, Any] = dict(fields)
        if idle is not None:
            made["gpu_idle_ns"] = {name: round(value * wide * MS) for name, value in idle.items()}
        if device is not None:
            made["gpu_ns"] = {name: round(value * wide * MS) for name, value in device.items()}
        steps.append(Step(t=t, run_id=RUN_ID, n=i, dur_ns=max(1, length), phases_ns=columns, **(made | more)))
        t += max(1, length)
    records += steps
    records += samples(t0, t, samples_s, gpu, host, process)
    records += extra
    return records


def samples(
    start: int,
    end: int,
    every_s: float,
    gpu: dict[str, Any] | None,
    host: dict[str, Any] | None,
    process: dict[str, Any] | None,
) -> list[AnyRecord]:
    """Samples of the GPU, the machine and the process from `start` to `end` (ns)."""
    records: list[AnyRecord] = []
    for index in range(int((end - start) / (every_s * S)) + 1):
        t = start + round(index * every_s * S)
        if gpu is not None:
            records.append(Gpu(t=t, **({"host": HOST, "gpu_uuid": UUID} | _at(gpu, index))))
        if host is not None:
            records.append(Host(t=t, host=HOST, **_at(host, index)))
        if process is not None:
            records.append(Process(t=t, host=HOST, pid=PID, run_id=RUN_ID, **_at(process, index)))
    return records


def _at(fields: dict[str, Any], index: int) -> dict[str, Any]:
    """Fields of one sample: callables give a value for its index."""
    return {name: value(index) if callable(value) else value for name, value in fields.items()}


def workers(number: int, cpu_pct: float, **fields: Any) -> list[Worker]:
    """A loader's workers, alike."""
    return [Worker(pid=5000 + index, cpu_pct=cpu_pct, **fields) for index in range(number)]


def event(kind: str, at_ms: float, dur_ms: float | None = None, **fields: Any) -> Event:
    """An event of the run."""
    dur = None if dur_ms is None else round(dur_ms * MS)
    return Event(t=T0 + round(at_ms * MS), kind=kind, run_id=RUN_ID, dur_ns=dur, **fields)


def window(records: Iterable[AnyRecord], run_id: str = RUN_ID, now_ns: int | None = None) -> Window:
    """The window at the end of a trace, as the timeline cuts it."""
    timeline = Timeline()
    ordered = sorted(records, key=lambda record: record.t)
    for record in ordered:
        timeline.add(record)
    end = timeline.runs[run_id].last_end or timeline.last_ns
    assert end is not None
    return timeline.window(run_id, now_ns if now_ns is not None else max(end, timeline.last_ns or end))


def verdict(records: Iterable[AnyRecord], run_id: str = RUN_ID) -> Verdict:
    """What the last window of a trace says."""
    return judge(window(records, run_id))


def reported(records: Iterable[AnyRecord], run_id: str = RUN_ID) -> Verdict:
    """What a report says of a trace: judged second by second, as it would have been live."""
    return judge_trace(records, "test").runs[run_id].verdict


def both(records: list[AnyRecord], run_id: str = RUN_ID) -> tuple[Verdict, Verdict]:
    """The verdict of the last window, and that of the report."""
    return verdict(records, run_id), reported(records, run_id)


GPU_BYTES = 80 << 30
"""Memory of the GPU in these traces."""

STARVED = {"data": 60.0, "h2d": 2.0, "forward": 12.0, "backward": 20.0, "optimizer": 4.0}
"""A step that waits for data, ms by phase."""

COMPUTE = {"data": 1.0, "forward": 30.0, "backward": 45.0, "optimizer": 8.0}
"""A step that computes."""

READS = {"data": 1.0, "forward": 20.0, "backward": 25.0, "optimizer": 5.0, "sync": 35.0}
"""A step with many reads of device values."""

SITES = [SyncSite(site="train.py:88", call=".item()", count=20, ns=30 * MS, source="patched")]
"""Where they are read."""


def busy(**fields: Any) -> dict[str, Any]:
    """A sample of a GPU that works all the time."""
    sample = {"util_pct": 97.0, "mem_used_bytes": 40 << 30, "mem_total_bytes": GPU_BYTES}
    return sample | {"power_w": 600.0, "power_limit_w": 700.0} | fields


def low(util_pct: float = 40.0, **fields: Any) -> dict[str, Any]:
    """A sample of a GPU that rests part of the time."""
    sample = {"util_pct": util_pct, "mem_used_bytes": 20 << 30, "mem_total_bytes": GPU_BYTES}
    return sample | {"power_w": 200.0, "power_limit_w": 700.0} | fields


def ranks(make: Callable[[int], dict[str, Any]], world: int = 4) -> list[AnyRecord]:
    """The records of a job's ranks "r0", "r1", ..., each with the trace that `make(rank)` describes."""
    out: list[AnyRecord] = []
    for rank in range(world):
        fields = make(rank)
        run = {"rank": rank, "world_size": world, "device": f"cuda:{rank}", "script": "train.py"}
        run |= fields.pop("run", {})
        for record in trace(run=run, seed=rank, **fields):
            changes: dict[str, Any] = {"run_id": f"r{rank}"} if hasattr(record, "run_id") else {}
            if isinstance(record, Run):
                changes["pid"] = PID + rank
            out.append(msgspec.structs.replace(record, **changes) if changes else record)
    return out


def others(name: str, cpu_pct: float, number: int = 1, seconds: int = 12) -> list[AnyRecord]:
    """Samples of other processes beside the run."""
    return [
        Process(t=T0 + second * S, host=HOST, pid=99 + index, name=name, cpu_pct=cpu_pct)
        for second in range(seconds)
        for index in range(number)
    ]


def alive(from_s: float, seconds: int, steps: int, **fields: Any) -> list[AnyRecord]:
    """Signs of life, one a second."""
    return [
        Alive(t=T0 + round((from_s + second) * S), run_id=RUN_ID, steps=steps, **fields) for second in range(seconds)
    ]


def expect(cause: str, records: list[AnyRecord], confidence: float = 0.4) -> None:
    """The last window and the report name `cause`, surely enough and within bounds."""
    for said in both(records):
        assert said.cause == cause, (said.cause, said.confidence, said.headline, said.runner_up)
        if cause == "unknown":
            continue
        assert confidence <= said.confidence < 1.0
        assert said.share_pct is None or 0 < said.share_pct <= 100
        assert said.speedup_limit is None or said.speedup_limit >= 1.0
        assert said.headline
        assert said.evidence
        assert any(one.supports for one in said.evidence)
        assert said.advice
