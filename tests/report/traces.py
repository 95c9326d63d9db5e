"""Made-up traces for the report's tests: deterministic, small, and each with something to report."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gputop.records import (
    AnyRecord,
    Event,
    Evidence,
    Gpu,
    Host,
    Loader,
    Model,
    Run,
    Step,
    Verdict,
)

S = 1_000_000_000
MS = 1_000_000
START = 1_760_000_000 * S

HOSTILE = "</script><img src=x onerror=\"document.title='owned'\">\x1b]0;owned\x07\u202e'&<!--"
"""Text that would do something almost anywhere it is not made inert."""


def wobble(n: int, rank: int) -> float:
    """A repeatable unrest within 1."""
    return math.sin(12.9898 * n + 78.233 * rank)


def job(ranks: int = 8, seconds: int = 300, *, slow: int | None = 5, host: str = "box") -> Iterator[AnyRecord]:
    """Ranks of one job in step with each other: five steps a second, an epoch every 300, a checkpoint every 250.

    Rank `slow` waits longest for data; the others wait for it in backward.
    """
    for rank in range(ranks):
        yield Run(
            t=START, run_id=f"r{rank}", pid=1000 + rank, host=host, schema=1, script="/home/ada/train.py", rank=rank,
            local_rank=rank, world_size=ranks, device=f"cuda:{rank}", gpu_uuid=f"GPU-{rank}", framework="torch",
            cores_allowed=96, cores=96,
        )  # fmt: skip
        yield Loader(
            t=START, run_id=f"r{rank}", loader_id=1, num_workers=8, batch_size=64, persistent_workers=True,
            pin_memory=True, prefetch_factor=2,
        )  # fmt: skip
        parameters = 25_000_000
        yield Model(
            t=START, run_id=f"r{rank}", name="ResNet", param_count=parameters, devices={f"cuda:{rank}": parameters}
        )
    t, n = START, 0
    second = START
    while t < START + seconds * S:
        while second <= t:
            yield from machine(second, ranks, host)
            second += S
        opens, saves = n % 300 == 0, n % 250 == 249
        extra = (400 * MS if opens else 0) + (900 * MS if saves else 0) + (2000 * MS if n == 0 else 0)
        dur = int(200 * MS + extra + 4 * MS * wobble(n, 0))
        for rank in range(ranks):
            wait = (90 if rank == slow else 8) * MS + (400 * MS if opens else 0)
            phases = {"data": wait, "h2d": 3 * MS, "forward": 40 * MS, "optimizer": 6 * MS}
            if saves:
                phases["checkpoint"] = 900 * MS
            phases["backward"] = max(30 * MS, dur - sum(phases.values()) - 2 * MS)
            yield Step(
                t=t, run_id=f"r{rank}", n=n, dur_ns=dur, phases_ns=phases, samples=64, loader_id=1, had_backward=True,
                epoch=n // 300, first_of_epoch=opens or None,
            )  # fmt: skip
        if opens and n:
            yield Event(t=t, kind="epoch", run_id="r0", label=str(n // 300))
        if saves:
            yield Event(t=t, kind="checkpoint", run_id="r0", dur_ns=900 * MS)
        t += dur
        n += 1


def machine(t: int, ranks: int, host: str) -> Iterator[AnyRecord]:
    """One second's samples of a machine with as many GPUs as ranks."""
    at = (t - START) // S
    for rank in range(ranks):
        yield Gpu(
            t=t, host=host, gpu_uuid=f"GPU-{rank}", gpu_index=rank, name="H100 80GB HBM3",
            util_pct=round(70 + 12 * wobble(at, rank), 1), mem_used_bytes=(40 + rank) * 1024**3,
            mem_total_bytes=80 * 1024**3, power_w=450 + 60 * wobble(at, rank), power_limit_w=700.0, temp_c=61.0,
            throttle=["thermal_sw"] if rank == 3 and at % 4 == 0 else [],
        )  # fmt: skip
    yield Host(
        t=t, host=host, cpu_pct=40 + 5 * wobble(at, 9), iowait_pct=2.0, cores=96, mem_used_bytes=200 * 1024**3,
        mem_total_bytes=1024**4,
    )  # fmt: skip


def said(run_id: str, at_s: float, cause: str) -> Verdict:
    """A verdict as recorded at the time."""
    return Verdict(
        t=START + int(at_s * S), run_id=run_id, cause=cause, family="host", headline=f"it was {cause}", confidence=0.8,
        evidence=[Evidence(signal="what was seen then", value=1.0)],
    )  # fmt: skip


def alone(steps: int = 40, *, run_id: str = "a", script: str = "train.py", length_ms: int = 100) -> list[AnyRecord]:
    """One run on a machine without a GPU."""
    run = Run(t=START, run_id=run_id, pid=7, host="box", device="cpu", script=script, cores_allowed=8)
    return [
        run,
        *(
            Step(
                t=START + n * length_ms * MS,
                run_id=run_id,
                n=n,
                dur_ns=length_ms * MS,
                loader_id=1,
                had_backward=True,
                phases_ns={"data": 10 * MS, "forward": 40 * MS, "backward": 40 * MS, "optimizer": 5 * MS},
            )
            for n in range(steps)
        ),
    ]
