"""Healthy loops with 30 % noise, drawn at random: none is accused, and what is said of one changes rarely."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest

from gputop.records import AnyRecord
from gputop.report.judged import judge_trace
from tests.diagnosis.builder import GPU_BYTES, MS, RUN_ID, S, busy, ranks, trace, workers

HEALTHY = {"gpu-bound", "cpu-bound", "small-model", "unknown", "warmup"}
"""What may be said of a loop in order."""

SECONDS = 90


def healthy(seed: int) -> list[AnyRecord]:
    """A loop that computes: on a GPU seen by its events, by the driver or with harmless reads; or on a CPU.

    What looks untidy beside it is drawn too: full memory, a power cap, warm boards, disks at work, idle or busy
    workers, a loader without any, single long steps, longer waits now and then.
    """
    random = Random(seed)
    between = random.uniform
    step = random.choice([8, 20, 60, 150, 400, 1500]) * between(0.7, 1.4)
    phases = {"data": min(0.04 * step, between(0.05, 2.0)), "forward": step * between(0.2, 0.4),
              "backward": step * between(0.3, 0.5), "optimizer": step * between(0.02, 0.12)}  # fmt: skip
    count, cores = random.choice([0, 2, 4, 8, 16]), random.choice([2, 4, 8, 16, 64])
    gpu = busy(
        util_pct=between(93, 100), mem_used_bytes=round(between(0.05, 0.99) * GPU_BYTES), power_w=between(300, 700),
        throttle=random.choice([["power_cap"], []]), sm_clock_mhz=between(1800, 1980), sm_clock_max_mhz=1980,
        temp_c=between(50, 86),
    )  # fmt: skip
    more: dict[str, Any] = {}
    kind = random.choice(["events", "reads", "driver", "cpu"])
    if kind in ("events", "reads"):
        more["device"] = {name: ms for name, ms in phases.items() if name != "data"}
        more["idle"] = {"data": min(phases["data"], 0.02 * step)}
        more["queue_empty"] = between(0, 0.2)
    if kind == "reads":
        phases |= {"sync": 0.3 * step, "forward": 0.3 * phases["forward"]}
        more |= {"sync_count": 1, "sync_ns": round(0.3 * step * MS)}
    if kind == "cpu":
        more |= {"run": {"device": "cpu"}, "no_gpu": True}
    else:
        more["gpu"] = gpu

    def each(_: int) -> dict[str, Any]:
        fields: dict[str, Any] = {"other_ms": step * between(0.1, 0.5) if random.random() < 0.01 else 0.0}
        if random.random() < 0.02:
            fields["phases"] = {"data": 8 * phases["data"]}
        return fields

    return trace(
        phases, ms=sum(phases.values()) + step * between(0, 0.04), n=max(25, min(2500, round(1000 * SECONDS / step))),
        jitter=0.3, seed=seed, each=each,
        loader={"num_workers": count, "batch_size": 32, "pin_memory": random.random() < 0.5},
        host={"cores": cores, "cpu_pct": between(5, 70), "iowait_pct": between(0, 15),
              "disk_busy_pct": between(0, 100)},
        process={"main_thread_cpu_pct": between(40, 100), "cpu_pct": between(90, 110),
                 "workers": workers(count, between(5, 90)) if count else None},
        **more,
    )  # fmt: skip


def healthy_job(seed: int, world: int, seconds: int) -> list[AnyRecord]:
    """Ranks that do the same: each is last now and then, and none often. They wait for each other in an exchange that
    is marked, or in backward, timed by the host alone or by the device too."""
    random = Random(seed)
    between = random.uniform
    step, jitter, exchange = (
        random.choice([20, 60, 150, 400]) * between(0.7, 1.4),
        between(0.01, 0.05),
        between(0.01, 0.06),
    )
    marked, timed, on_gpu = random.random() < 0.5, random.random() < 0.6, random.random() < 0.8
    n = max(25, min(600, round(1000 * seconds / step)))
    own = [[step * (1 + between(-jitter, jitter)) for _ in range(n)] for _ in range(world)]
    lengths = [max(times) + exchange * step for times in zip(*own, strict=True)]
    parts = {"data": 0.01, "forward": 0.31, "backward": 0.6, "optimizer": 0.08}

    def of_rank(rank: int) -> dict[str, Any]:
        def each(i: int) -> dict[str, Any]:
            phases = {name: part * own[rank][i] for name, part in parts.items()}
            meeting = "comm" if marked else "backward"
            phases[meeting] = phases.get(meeting, 0.0) + lengths[i] - own[rank][i]
            fields: dict[str, Any] = {"phases": phases}
            if timed and on_gpu:
                fields["gpu_ns"] = {name: round(ms * MS) for name, ms in phases.items() if name != "data"}
                fields |= {"gpu_idle_ns": {"data": round(0.3 * phases["data"] * MS)}, "queue_empty": 0.05}
            return fields

        device = {"gpu": busy()} if on_gpu else {"run": {"device": "cpu"}, "no_gpu": True}
        return {"phases": {}, "jitter": 0.0, "n": n, "each": each, **device}

    return ranks(of_rank, world)


def accused(seed: int) -> list[str]:
    """The faults that are named in a healthy loop; and a change of the verdict sooner than a minute after another."""
    segments = judge_trace(healthy(seed), "test").watch.judges[RUN_ID].segments
    found = [segment.cause for segment in segments if segment.cause not in HEALTHY]
    said = [segment for segment in segments if segment.cause != "warmup"]
    found += [f"{b.cause} soon" for (a, b) in pairwise(said[1:]) if b.from_ns - a.from_ns < 60 * S]
    return found


@pytest.mark.parametrize("seed", range(30))
def test_a_healthy_loop_is_not_accused(seed: int) -> None:
    assert accused(seed) == []


@pytest.mark.slow
def test_two_hundred_healthy_loops_are_not_accused() -> None:
    assert {seed: found for seed in range(1000, 1200) if (found := accused(seed))} == {}


def accused_job(seed: int, world: int, seconds: int) -> set[str]:
    """The faults that are named on any rank of a healthy job."""
    judges = judge_trace(healthy_job(seed, world, seconds), "test").watch.judges
    assert len(judges) == world
    return {segment.cause for judge in judges.values() for segment in judge.segments} - HEALTHY


@pytest.mark.parametrize("seed", range(6))
def test_no_rank_of_a_healthy_job_is_accused(seed: int) -> None:
    assert not accused_job(seed, 2 + seed % 3, 25)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_two_hundred_healthy_jobs_are_not_accused() -> None:
    worlds = (2, 4, 8)
    assert {seed: found for seed in range(1000, 1200) if (found := accused_job(seed, worlds[seed % 3], 40))} == {}
