"""Hosts that hold a device up, of trainings without steps: a busy training thread, full cores, full memory."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.causes import host_contention, host_work, launch_bound, memory_pressure, small_model, sync
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_wait import BUSY_WORKER_PCT, free_share
from gputop.diagnosis.machine import QUOTA_SHARE
from gputop.diagnosis.stepless.seen import BUSY_MAIN_PCT, IDLE_PCT, Seen, idle_case, idles, named
from gputop.diagnosis.wording import count, pct
from gputop.records import Advice

TRICKLE_PCT = 35.0
"""Steady utilization up to which a busy training thread feeds the device in trickles (reports of launch-bound runs had
8 to 31); with more, launches too small and work by itself look alike, unless the device is seen to rest in between."""

FULL_MEM_PCT = 85.0
"""Device memory in use, percent, from which a device that hardly works holds a real model: no small one."""


def neighbours(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    """Cores that others have, or that a quota withholds."""
    machine = facts.machine
    others = (
        machine.others_cores / machine.cores_all if machine.others_cores is not None and machine.cores_all else None
    )
    free = free_share(facts)
    held = 100 * (machine.throttled_share or 0.0)
    runs = seen.main is not None and seen.main >= BUSY_MAIN_PCT  # nobody keeps the training thread from a core
    if seen.idle < IDLE_PCT or (runs and not seen.workers):
        return
    case = idle_case(facts, seen)
    full = free is not None and free <= host_contention.FREE_SHARE
    crowd = None if others is None or not full else 100 * others
    taken = case.any_of(
        2.0,
        "host",
        ("CPU time taken by other guests", machine.steal_pct, host_contention.STEAL_PCT, "%"),
        ("cores used by other processes", crowd, 100 * host_contention.OTHERS_SHARE, "%"),
        ("time held back by the CPU quota", held or None, 100 * QUOTA_SHARE, "%"),
    )
    if not taken:
        return
    case.missing(1.0)
    yield named(
        host_contention.ID, host_contention.FAMILY, case, seen.idle,
        f"{idles(seen)} while the CPUs that this run needs are taken by others",
        [host_contention.OWN_CORES],
    )  # fmt: skip


def host(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    """A training thread that works all the time while the device rests: what it does shows in how the device is fed."""
    if seen.idle < IDLE_PCT or seen.main is None or seen.main < BUSY_MAIN_PCT:
        return
    if seen.worker is not None and seen.worker >= BUSY_WORKER_PCT:
        return

    def case() -> Case:
        made = idle_case(facts, seen)
        made.at_least("CPU of the training thread", seen.main, BUSY_MAIN_PCT, "%", "process", 1.5)
        return made

    trickles = not seen.swings and seen.util <= TRICKLE_PCT
    work, launch, reads = case(), case(), case()
    if seen.swings or trickles:
        work.weigh("utilization swings between work and nothing", "yes" if seen.swings else "no", seen.swings, None,
                   "driver")  # fmt: skip
        launch.weigh("utilization is low and steady", "yes" if trickles else "no", trickles, None, "driver")
    else:  # steps shorter than the driver's period, each with stretches of either kind
        work.missing(3.0)
        launch.missing(3.0)
    launch.at_most("memory controller use", facts.device.mem_util_pct, seen.util / 2, "%", "driver", 0.5)
    reads.at_most("GPU utilization", seen.util, TRICKLE_PCT, "%", "driver")
    reads.at_least("device memory in use", seen.mem, FULL_MEM_PCT, "%", "driver")
    if seen.mem is None:
        reads.missing(1.0)
    elif seen.mem >= FULL_MEM_PCT:
        launch.at_most("device memory in use", seen.mem, FULL_MEM_PCT, "%", "driver", 0.5)
    else:
        launch.at_least("device memory in use", seen.mem, small_model.LOW_MEMORY_PCT, "%", "driver", 1.5)
    if seen.workers == 0:
        for other in (work, launch, reads):
            other.weigh("loader workers", 0.0, False, "workers", "loader", 0.5, 1.0)
    busy = f"{idles(seen)} while the training thread is at {seen.main:.0f} % CPU"
    yield named(
        host_work.ID, host_work.FAMILY, work, seen.idle, f"{busy}, and works in stretches between: host work",
        [Advice(do="log, draw and compute metrics less often, or in another thread or process",
                why="the device gets no work meanwhile", code=host_work.RARELY)],
    )  # fmt: skip
    yield named(
        launch_bound.ID, launch_bound.FAMILY, launch, seen.idle, f"{busy}, launching work too small for it",
        [Advice(do="compile the model with CUDA graphs, or a larger batch", why="each launch then does more work",
                code=launch_bound.CUDA_GRAPHS)],
    )  # fmt: skip
    yield named(
        sync.ID, sync.FAMILY, reads, seen.idle,
        f"{busy} with memory full of a real model: it loops over or reads device values",
        [Advice(do="replace Python loops over device values and reads of them by tensor operations",
                why="each read waits until the device has done everything queued so far",
                code=sync.SUM_ON_DEVICE)],
    )  # fmt: skip


def small(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    device, model = facts.device, facts.window.model
    params = model.param_count if model else None
    tiny = params is not None and params <= small_model.TINY_PARAMS
    if seen.idle < IDLE_PCT or seen.util <= 0 or (seen.worker or 0.0) >= BUSY_WORKER_PCT:
        return
    case = idle_case(facts, seen)
    case.at_most("device memory in use", seen.mem, small_model.LOW_MEMORY_PCT, "%", "driver", 0.5 if tiny else 1.0)
    case.at_most("power over its limit", device.power_ratio, small_model.LOW_POWER, "", "driver")
    case.at_most("parameters", None if params is None else float(params), small_model.TINY_PARAMS, "", "model", 2.0)
    if params is None:
        case.missing(1.0)
    low = (seen.mem or 100.0) <= small_model.LOW_MEMORY_PCT and (device.power_ratio or 1.0) <= small_model.LOW_POWER
    if not (tiny or low):
        return
    yield named(
        small_model.ID, small_model.FAMILY, case, seen.idle,
        f"{device.name} is larger than the work, nothing is wrong: {pct(seen.util)} utilization"
        + (f", {count(params, 'parameter')}" if params is not None else ""),
        [Advice(do="a larger batch, several runs side by side (MPS, MIG), or a smaller GPU",
                why="one run alone can't fill this card")],
        healthy=True,
    )  # fmt: skip


def spill(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    calm = seen.main is not None and seen.main < BUSY_MAIN_PCT and (seen.worker or 0.0) < BUSY_WORKER_PCT
    if seen.idle < IDLE_PCT or seen.mem is None or seen.mem < memory_pressure.BRIM_PCT or not calm:
        return
    case = idle_case(facts, seen)
    case.at_least("device memory in use", seen.mem, memory_pressure.BRIM_PCT, "%", "driver", 1.5)
    case.at_most("CPU of the training thread", seen.main, BUSY_MAIN_PCT, "%", "process")
    case.missing(1.0)
    yield named(
        memory_pressure.ID, memory_pressure.FAMILY, case, seen.idle,
        f"{idles(seen)}, and the CPU too, with device memory {pct(seen.mem)} full: it may spill to host memory",
        [memory_pressure.SMALLER],
    )  # fmt: skip
