"""Small recordings for tests, written by the real writer as a recorder would: one transaction a second."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from gputop.recording.reader import Recording
from gputop.recording.writer import Writer
from gputop.records import Alive, AnyRecord, Event, Gpu, Host, Record, Run, Step, Verdict, end_of

MS = 1_000_000
S = 1_000_000_000
T0 = 1_000 * S


def run(run_id: str = "a", rank: int = 0, world: int = 1) -> Run:
    return Run(
        t=T0, run_id=run_id, pid=rank + 1, host="h", rank=rank, world_size=world, script="train.py", device="cuda:0",
        cores_allowed=8,
    )  # fmt: skip


def step(n: int, dur_ms: float = 200, *, run_id: str = "a", t: int | None = None, data_pct: int = 60) -> Step:
    """Step `n` of a loop without pauses that begins at T0; most of it waits for data."""
    dur = int(dur_ms * MS)
    data = dur * data_pct // 100
    phases = {"data": data, "forward": (dur - data) // 3, "backward": (dur - data) // 3}
    return Step(
        t=T0 + n * dur if t is None else t, run_id=run_id, n=n, dur_ns=dur, phases_ns=phases, samples=64, loader_id=1,
        had_backward=True, optimizer_step=True, queue_empty=1.0,
    )  # fmt: skip


def training(seconds: float, dur_ms: float = 200, *, run_id: str = "a", rank: int = 0, world: int = 1) -> list[Record]:
    """A steady training with samples of its machine, in the order of what was over first."""
    count = int(seconds * 1000 / dur_ms)
    records: list[Record] = [run(run_id, rank, world)]
    records += [step(n, dur_ms, run_id=run_id) for n in range(count)]
    for second in range(int(seconds)):
        t = T0 + second * S
        records.append(Alive(t=t, run_id=run_id, steps=int(second * 1000 / dur_ms)))
        if rank == 0:
            records.append(Host(t=t, host="h", cpu_pct=30.0, iowait_pct=second % 8 / 8, cores=8))
        records.append(
            Gpu(
                t=t,
                host="h",
                gpu_uuid=f"GPU-{rank}",
                gpu_index=rank,
                util_pct=38.0 + second // 2 % 3 * 2,
                mem_used_bytes=40,
                mem_total_bytes=80,
            )
        )
    return sorted(records, key=end_of)  # type: ignore[arg-type]


def said(t: int, cause: str, *, run_id: str = "a") -> Verdict:
    return Verdict(t=t, run_id=run_id, cause=cause, family="input", headline=cause, confidence=0.9, since_ns=t)


def mark(t: int, kind: str = "epoch", *, run_id: str = "a") -> Event:
    return Event(t=t, kind=kind, run_id=run_id)


def write(path: Path, records: Iterable[Record], *, close: bool = True) -> Writer:
    """Write records in their order, a transaction for each second of their times."""
    writer = Writer(path, now_ns=T0)
    due = 0
    for record in records:
        end = end_of(record)
        if end > due:
            if writer.pending():
                writer.commit(due)
            due = end // S * S + S
        writer.add(record)
    writer.commit(due)
    if close:
        writer.close(due)
    return writer


def recording(path: Path, records: Iterable[Record]) -> Recording:
    """A finished recording, open for reading."""
    write(path, records)
    return Recording(path)


def merged(*parts: Sequence[Record]) -> list[Record]:
    """Several series as one, runs first among equals."""
    return sorted((one for part in parts for one in part), key=lambda one: (end_of(one), not isinstance(one, Run)))


def key(record: AnyRecord | Record) -> bytes:
    """A record as something to compare and count."""
    return msgspec.msgpack.encode(record)
