"""What is known of a training that tells no steps, and how a cause of it is put."""

from __future__ import annotations

from typing import NamedTuple

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.device import reserves
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.wording import pct
from gputop.records import Advice

IDLE_PCT = 25.0
"""Percent of the time without any kernel from which something holds the device up: it counts any kernel as use."""

BUSY_MAIN_PCT = 85.0
"""CPU of the training thread (one core = 100) from which it works, or spins in a read, all the time."""

SWING_HIGH, SWING_LOW, SWING_SHARE = 80.0, 20.0, 0.25
"""Utilization that is above or below these, each in this share of samples at least, swings between work and nothing."""

NOTICE = "no step is known: judged by the driver's and the processes' figures alone"

SEE_STEPS = Advice(
    do="have gputop see the steps", why="they tell the causes apart", code="gputop run -- python train.py"
)


class Seen(NamedTuple):
    """What is known: CPU of the training thread and of each worker, the device's own memory use, percent."""

    util: float
    idle: float
    main: float | None
    worker: float | None
    workers: int | None
    mem: float | None
    swings: bool


def readings(facts: Facts) -> int:
    device, machine, loader = facts.device, facts.machine, facts.loader
    figures = (
        device.mem_pct, device.mem_util_pct, device.sm_active_pct, device.power_w, device.clock_ratio, device.temp_c,
        device.neighbours or None, machine.main_pct, machine.worker_pct, machine.iowait_pct, machine.disk_busy_pct,
        machine.cpu_pct, facts.window.model, loader.batch_size if loader else None,
        loader.num_workers if loader else None,
    )  # fmt: skip
    return sum(figure is not None for figure in figures)


def read_seen(facts: Facts, util: float) -> Seen:
    device, machine, loader = facts.device, facts.machine, facts.loader
    workers = loader.num_workers if loader and loader.num_workers is not None else machine.workers
    samples = [value for burst in facts.window.bursts for value in burst.util_pct]
    samples = samples or [gpu.util_pct for gpu in facts.window.gpu if gpu.util_pct is not None]
    high = sum(value >= SWING_HIGH for value in samples)
    low = sum(value <= SWING_LOW for value in samples)
    return Seen(
        util=util,
        idle=100 - util,
        main=machine.main_pct if machine.main_pct is not None else machine.own_pct,
        worker=machine.worker_pct if workers != 0 else None,
        workers=workers,
        mem=None if reserves(facts.window.run) else device.mem_pct,
        swings=min(high, low) >= SWING_SHARE * len(samples),
    )


def named(
    cause: str, family: str, case: Case, share: float, headline: str, advice: list[Advice], **more: bool
) -> Candidate:
    return Candidate(
        cause=cause,
        family=family,
        share_pct=share,
        fit=case.fit,
        headline=headline,
        evidence=case.evidence,
        advice=[*advice, SEE_STEPS],
        speedup_limit=None if more.get("healthy") else speedup(share),
        estimated=True,
        notices=[NOTICE],
        **more,
    )


def idle_case(facts: Facts, seen: Seen) -> Case:
    case = Case(facts)
    case.at_least("time without any kernel on the device", seen.idle, IDLE_PCT, "%", "driver")
    return case


def idles(seen: Seen) -> str:
    return f"the device idles {pct(seen.idle)} of the time"
