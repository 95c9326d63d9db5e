"""Devices at work, of trainings without steps: the limit, held down, shared or waiting; or not used at all."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.causes import comm_bound, cpu_fallback, gpu_bound, gpu_contention, idle, throttled
from gputop.diagnosis.device import own_pid
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.machine import busiest_pct
from gputop.diagnosis.stepless.seen import BUSY_MAIN_PCT, IDLE_PCT, NOTICE, SEE_STEPS, Seen, named
from gputop.diagnosis.wording import count, pct
from gputop.records import Advice

RESTING_PCT = 5.0
"""CPU of a process and of each of its workers (one core = 100) below which it does nothing worth the name."""


def rests(facts: Facts, seen: Seen) -> Candidate | None:
    """A process that is there and does nothing: no kernel in any sample, and hardly any CPU."""
    utils = [gpu.util_pct or 0.0 for gpu in facts.window.gpu]
    utils += [value for burst in facts.window.bursts for value in burst.util_pct]
    at_work = busiest_pct(facts.machine)
    if at_work is None or max(utils, default=100.0) >= 1 or max(at_work, seen.worker or 0.0) >= RESTING_PCT:
        return None
    case = Case(facts)
    case.at_most("GPU utilization", seen.util, 1, "%", "driver", 2.0)
    case.at_most("CPU of the training", at_work, RESTING_PCT, "%", "process", 2.0)
    return Candidate(
        cause=idle.ID,
        family=idle.FAMILY,
        share_pct=0.0,
        fit=case.fit,
        headline=f"process {own_pid(facts.window).number} is there, but neither the GPU nor the CPU does anything "
        "for it",
        evidence=case.evidence,
        advice=[SEE_STEPS],
        state=True,
        notices=[NOTICE],
    )


def device_works(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    """A device that is at work: the limit, unless its clocks, a neighbour or a collective say otherwise."""
    device, world = facts.device, facts.window.run.world_size or 1
    if seen.idle >= IDLE_PCT:
        return
    ratio = device.clock_ratio
    held = throttled.held_down(facts, seen.idle)
    if held is not None:
        yield msgspec.structs.replace(held, advice=[*held.advice, SEE_STEPS], notices=[NOTICE], estimated=True)
    foreign = sum(process.sm_pct or 0.0 for process in device.neighbours)
    if foreign >= gpu_contention.NEIGHBOUR_SM_PCT:
        case = Case(facts)
        case.at_least("SM use by other processes", foreign, gpu_contention.NEIGHBOUR_SM_PCT, "%", "driver", 2.0)
        yield named(
            gpu_contention.ID, gpu_contention.FAMILY, case, min(100.0, foreign),
            f"process {device.neighbours[0].pid} computes on the same GPU: others take {pct(foreign)} of its time",
            [Advice(do="run one after the other, or each on a GPU of its own", why="two on one device take turns")],
            beside=True,
        )  # fmt: skip
    spins = comm_bound.spinning(facts, world) if world > 1 else None
    if spins is not None:
        yield msgspec.structs.replace(spins, advice=[*spins.advice, SEE_STEPS], notices=[NOTICE])
    case = Case(facts)
    case.at_least("GPU utilization", seen.util, gpu_bound.BUSY_UTIL_PCT, "%", "driver", 2.0)
    case.at_least("power over its limit", device.power_ratio, gpu_bound.WORKING_POWER, "", "driver")
    if ratio is not None:
        case.at_least("SM clock over its maximum while busy", ratio, throttled.CRAWL_RATIO, "", "driver")
    case.missing(1.0)
    yield named(
        gpu_bound.ID, gpu_bound.FAMILY, case, seen.util,
        f"healthy as far as the driver tells: {device.name} is busy {pct(seen.util)} of the time", [], healthy=True,
    )  # fmt: skip


def on_the_cpu(facts: Facts) -> list[Candidate]:
    """A process that works on the CPU beside a GPU, by where its parameters are or by the driver's list."""
    device, main = facts.device, facts.machine.main_pct or facts.machine.own_pct
    if not device.gpus_present or main is None or main < BUSY_MAIN_PCT:
        return []
    case = Case(facts)
    case.weigh("GPUs in this machine", float(device.gpus_present), True, "", "driver", 1.0, 1.0)
    case.at_least("CPU of the training", main, BUSY_MAIN_PCT, "%", "process")
    case.at_least("parameters on the CPU", device.params_on_cpu_pct, 100, "%", "model")
    if device.listed is not None:
        case.weigh("run listed on a GPU", str(device.listed), not device.listed, None, "driver", 2.0)
    move = Advice(
        do="move the model and each batch to the GPU, the model before the optimizer is built",
        why="an operator runs where its tensors are, and nothing warns when that is the CPU",
        code='device = torch.device("cuda")\nmodel = model.to(device)\nimages = images.to(device, non_blocking=True)',
    )
    headline = f"{count(device.gpus_present, 'GPU')} in this machine, but the model trains on the CPU"
    return [named(cpu_fallback.ID, cpu_fallback.FAMILY, case, 100.0, headline, [move], certain=True)]
