"""Too few loader workers while cores are free."""

from __future__ import annotations

from math import ceil

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import (
    DISK_WAIT_SHARE,
    FEW_WORKERS,
    LATE_SHARE,
    LONG_SAMPLE_MS,
    RARER,
    UNEVEN,
    blocked,
    delivered,
    heavy_tailed,
    long_samples,
    one_holds_up,
    pinning,
    remote,
    takes_turns,
)
from gputop.diagnosis.input_wait import (
    BUSY_WORKER_PCT,
    CHEAPER,
    ENTER_PCT,
    FREE_SHARE,
    IDLE_WORKER_PCT,
    SMALL_GAIN,
    InputWait,
    computing_pct,
    cores_short,
    input_wait,
    loader_code,
    most_pct,
    taking_ms,
    waits,
)
from gputop.diagnosis.machine import STARVED_WORKER_PCT
from gputop.diagnosis.wording import count, time
from gputop.records import Advice

ID = "input-workers"
FAMILY = "input"

QUIET_DISK_PCT = 80.0
"""Disk busy time, percent, above which the disk and not the number of workers may be the limit."""

FULL_SHARE = 0.1
"""Share of the usable cores that the run must leave for more workers to be an answer at all."""

WAITING_MOST = 32
WAITING_PER_CORE = 4
"""Workers that only wait need hardly any core, but each is a process with its memory: at most this many, or this many
a core."""

READY_PCT = 15.0
"""Wall time, percent, that workers are ready without a core from which one more would wait too."""

QUIET_IOWAIT_PCT = 10.0
"""CPU time waiting for I/O, percent, above which the same holds."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the wait for data would go with more workers, and how many it takes."""
    wait = input_wait(facts)
    if wait is None or _no_room(wait) or delivered(facts, wait) or pinning(facts, wait) is not None:
        return None
    case = Case(facts)
    case.at_least("step time lost waiting for data", wait.lost_pct, ENTER_PCT, "%", "steps", 1.5)
    _weigh_workers(case, wait)
    if takes_turns(wait):
        case.weigh("waits have the beat of several workers", "yes", False, None, "steps", 0.75)
    machine = facts.machine
    held_up = blocked(facts, wait)
    if wait.waiting and not held_up:
        case.weigh("fetching waits rather than computes", "yes", True, None, "process", 2.0)
    elif wait.room_share is None:
        case.missing(1.0)
        if wait.workers and machine.worker_pct is not None and machine.worker_pct >= BUSY_WORKER_PCT:
            case.at_most("workers that never rest", float(wait.workers), FEW_WORKERS, "workers", "loader", 0.75)
    else:
        room = 100 * wait.room_share
        case.at_least("usable cores that this run leaves", room, 100 * FREE_SHARE, "%", "host", 2.0)
    if wait.workers:
        busy = machine.worker_pct
        if busy is not None and busy >= BUSY_WORKER_PCT:
            case.at_least("CPU of each worker", busy, BUSY_WORKER_PCT, "%", "process", 0.5)
        if machine.cores and not wait.waiting:
            case.at_most("workers", float(wait.workers), machine.cores - 1, "workers", "loader")
    crowded = wait.free_share is not None and wait.free_share < FULL_SHARE and not wait.waiting
    if wait.workers and crowded and machine.worker_pct is not None and machine.worker_pct < STARVED_WORKER_PCT:
        case.at_least("CPU of each worker", machine.worker_pct, STARVED_WORKER_PCT, "%", "process", 2.0)
    if wait.workers and machine.worker_wait_pct is not None and machine.worker_wait_pct >= READY_PCT:
        ready = machine.worker_wait_pct
        case.at_most("time that workers are ready without a core", ready, READY_PCT, "%", "process", 2.0)
    stuck = machine.workers_in_disk_wait
    if stuck is not None and stuck >= DISK_WAIT_SHARE:
        case.at_most("looks that found workers in disk wait", 100 * stuck, 100 * DISK_WAIT_SHARE, "%", "process", 2.0)
    if wait.workers and heavy_tailed(wait) and wait.late_share is None:
        case.at_most(
            "longest wait over the usual long one", wait.shape.max_ms / wait.shape.long_ms, UNEVEN, "x", "steps", 2.0
        )
    if cores_short(facts, wait):
        case.weigh("speed-up by more workers on these cores", "small", False, None, "host", 3.0)
    if wait.late_share is None and (apart := one_holds_up(facts, wait)) is not None:
        case.at_most("steps for each long wait", apart, RARER * (wait.workers or 1), "steps", "steps", 4.0)
    away = remote(facts)
    if away and wait.workers and wait.waiting:
        case.weigh("file system of the data set", away, False, None, "loader", 2.0)
    if (long := long_samples(facts, wait)) is not None:
        case.at_most("worker time for one sample", long, LONG_SAMPLE_MS, "ms", "steps", 2.0)
    case.at_most("CPU time waiting for I/O", machine.iowait_pct, QUIET_IOWAIT_PCT, "%", "host", 0.75)
    case.at_most("disk busy", machine.disk_busy_pct, QUIET_DISK_PCT, "%", "host", 0.75)
    if wait.late_share is not None and (held_up or wait.late_share < LATE_SHARE):
        weight = 3.0 if held_up else 1.5
        case.at_most("waits with later batches ready", 100 * wait.late_share, 100 * LATE_SHARE, "%", "steps", weight)
    elif wait.late_share is None and wait.workers and wait.ready_share is not None:
        case.at_most("waits with batches ready", 100 * wait.ready_share, 50, "%", "steps", 1.5)
    gain = speedup(wait.lost_pct, _floor(facts, wait))
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=wait.lost_pct,
        fit=case.fit,
        headline=_headline(facts, wait),
        evidence=case.evidence,
        advice=_advice(facts, wait),
        speedup_limit=gain,
        gain_pct=max(0.0, 100 - _floor(facts, wait)) if gain is not None and gain < SMALL_GAIN else None,
        estimated=bool(facts.lost and "data" in facts.lost.estimated and facts.lost.source == "device"),
    )


def _no_room(wait: InputWait) -> bool:
    """Whether the run itself has all the cores that it may use, so that another worker would find none."""
    return wait.room_share is not None and not wait.waiting and wait.room_share < FULL_SHARE


def _weigh_workers(case: Case, wait: InputWait) -> None:
    if wait.workers is None:
        case.missing(1.5)
    elif wait.workers == 0:
        case.weigh("loader workers", 0.0, True, "workers", "loader", 2.0, 1.0)
    elif wait.needed is not None:
        case.at_least("workers needed to keep up", float(wait.needed), wait.workers + 1, "workers", "steps", 1.5)


def _floor(facts: Facts, wait: InputWait) -> float:
    """Percent of the step below which workers can't bring it."""
    machine = facts.machine
    if wait.batch_ms is None or wait.workers is None or not machine.cores:
        return 0.0
    taking = taking_ms(wait)
    taken = min(100.0, 100 * (wait.step_ms - wait.wait_ms + taking) / wait.step_ms) if taking else 0.0
    if not wait.waiting:
        return max(taken, most_pct(facts, wait, machine.cores))
    taken = max(taken, computing_pct(facts, wait, machine.cores))
    most = float(_waiting_most(machine.cores, wait.workers))
    enough = wait.needed is not None and wait.needed <= most
    return taken if enough else max(taken, 100 * (wait.batch_ms + taking) / most / wait.step_ms)


def _waiting_most(cores: float, workers: int) -> int:
    """How many workers that wait rather than compute are worth trying."""
    return max(WAITING_MOST, round(WAITING_PER_CORE * cores), workers + 1)


def _fed(facts: Facts, wait: InputWait, cores: float) -> int | None:
    """How many workers that mostly wait deliver as fast as the cores can do what else they and the training compute."""
    pct = computing_pct(facts, wait, cores)
    if not pct or wait.batch_ms is None:
        return None
    return max((wait.workers or 0) + 1, ceil(100 * wait.batch_ms / (pct * wait.step_ms) - 1e-9))


def _enough(wait: InputWait, most: int, fed: int | None) -> str:
    """Why no more than `most` workers are advised where it would take more."""
    if wait.waiting and most != fed:
        return f"but each is a process: try {most}, and let each fetch several samples at once (threads, larger reads)"
    return f"the cores have room for {most}; making each batch cheaper does the rest"


def _headline(facts: Facts, wait: InputWait) -> str:
    text = waits(wait)
    room = _room(facts, wait)
    if wait.workers is None:
        return f"{text}; the loader's workers are not known to gputop{room}"
    if wait.workers == 0:
        return f"{text}: the training thread fetches every batch itself (num_workers=0){room}"
    busy = facts.machine.worker_pct
    at = f" at {busy:.0f} % CPU" if busy is not None else ""
    if wait.waiting and busy is not None and busy < IDLE_WORKER_PCT:
        return f"{text}: {count(wait.workers, 'worker')}, mostly waiting ({busy:.0f} % CPU), can't keep up{room}"
    return f"{text}: {count(wait.workers, 'worker')}{at} can't keep up{room}"


def _room(facts: Facts, wait: InputWait) -> str:
    """What is to be said of the cores: how many are free, or that others have them for the moment."""
    machine = facts.machine
    if machine.free_cores is None or wait.free_share is None or machine.cores is None:
        return ""
    if wait.free_share >= FREE_SHARE and machine.free_cores >= 0.5:
        return f" while {count(machine.free_cores, 'core')} of {machine.cores:.0f} are free"
    taken = machine.others_cores
    return f"; other processes have {count(taken, 'core')} for the moment" if taken and taken >= 0.5 else ""


def _advice(facts: Facts, wait: InputWait) -> list[Advice]:
    now = wait.workers
    if now is None and not facts.window.loaders:
        return [
            Advice(
                do="fetch ahead of the loop: in a background thread, or with a DataLoader's workers",
                why=f"the loop waits {time(wait.wait_ms)} per step for the next item",
            )
        ]
    if now is None or wait.batch_ms is None:
        return [
            Advice(
                do="give the loader more workers, as long as cores are free",
                why=f"the loop waits {time(wait.wait_ms)} per step for data",
                code=loader_code(facts, num_workers=4, persistent_workers=True),
            )
        ]
    needed = wait.needed
    cores = facts.machine.cores
    most = fed = None
    if cores is not None and not wait.waiting:
        most = now + max(1, int(cores * (wait.room_share if wait.room_share is not None else 1.0)))
    elif cores is not None:
        most, fed = _waiting_most(cores, now), _fed(facts, wait, cores)
        most = min(most, fed or most)
    target = needed if needed is not None and (most is None or needed <= most) else most
    target = max(now + 1, target if target is not None else now + 1)
    why = f"a batch takes {time(wait.batch_ms)} of one worker; a step {wait.without} takes {time(wait.left_ms)}"
    if needed is not None:
        why += f": {count(needed, 'worker')} keep up"
    if most is not None and (needed > most if needed is not None else wait.waiting):
        why += f", {_enough(wait, most, fed)}"
    if wait.waiting and cores is not None and target > cores:
        why += "; its workers wait rather than compute, so there may be more of them than cores (if they wait for one "
        why += "another, at a lock or one file that they share, no number of them helps)"
    if facts.loader is not None and facts.loader.dataset is not None and facts.loader.batches is None:
        why += (
            "; an IterableDataset must share its data out by get_worker_info() first, or each worker yields all of it"
        )
    changes: dict[str, object] = {"num_workers": target}
    if not (facts.loader and facts.loader.persistent_workers):
        changes["persistent_workers"] = True
    more = Advice(do=f"num_workers {now} → {target}", why=why, code=loader_code(facts, **changes))
    gain = speedup(wait.lost_pct, _floor(facts, wait))
    if gain is not None and gain < SMALL_GAIN:
        cheaper = Advice(
            do=f"make each batch cheaper: {CHEAPER}",
            why=f"a batch takes {time(wait.batch_ms)} and the cores have room for few workers more",
        )
        return [cheaper, more]
    return [more]
