"""Devices at work, of trainings without steps: the limit, held down, shared or waiting; or not used at all."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.causes import comm_bound, cpu_fallback, gpu_bound, gpu_contention, throttled
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.stepless.seen import BUSY_MAIN_PCT, IDLE_PCT, NOTICE, SEE_STEPS, Seen, named
from gputop.diagnosis.wording import count, pct
from gputop.records import Advice


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
    spins = world > 1 and device.power_ratio is not None and device.power_ratio < gpu_bound.WORKING_POWER
    if spins:
        case = Case(facts)
        case.at_least("GPU utilization", seen.util, gpu_bound.BUSY_UTIL_PCT, "%", "driver")
        case.at_most("power over its limit", device.power_ratio, gpu_bound.WORKING_POWER, "", "driver", 2.0)
        case.missing(1.0)
        share = 100 * (1 - (device.power_ratio or 0.0) / gpu_bound.WORKING_POWER)
        yield named(
            comm_bound.ID, comm_bound.FAMILY, case, share,
            f"{seen.util:.0f} % utilization at {pct(100 * (device.power_ratio or 0.0))} of the power limit in a job of "
            f"{count(world, 'rank')}: it waits in the exchange",
            [Advice(do="see which transport is used, and whether one rank is late",
                    why="a waiting collective counts as use", code="NCCL_DEBUG=INFO torchrun ...")],
            beside=True,
        )  # fmt: skip
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
