"""Loaders of trainings without steps: workers that never rest while the device does, or wait for storage."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.causes import input_cpu, input_disk, input_oversubscribed, input_workers
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import CROWDED, DISK_WAIT_SHARE, FEW_WORKERS, remote
from gputop.diagnosis.input_wait import (
    BUSY_WORKER_PCT,
    CHEAPER,
    FREE_SHARE,
    IDLE_WORKER_PCT,
    free_share,
    loader_code,
    room_share,
)
from gputop.diagnosis.stepless.seen import BUSY_MAIN_PCT, IDLE_PCT, Seen, idle_case, idles, named
from gputop.diagnosis.wording import count
from gputop.records import Advice

CROWD_TAKES_PCT = 70.0
"""Usable cores, percent, that many workers must take together for them to crowd each other."""


def loader(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    """Workers that never rest while the device does; or none at all beside a busy training thread."""
    if seen.idle < IDLE_PCT:
        return
    if seen.workers == 0 and (seen.main is None or seen.main >= BUSY_MAIN_PCT):
        case = idle_case(facts, seen)
        case.weigh("loader workers", 0.0, True, "workers", "loader", 1.5, 1.0)
        case.at_least("CPU of the training thread", seen.main, BUSY_MAIN_PCT, "%", "process")
        case.missing(0.5)
        yield named(
            input_workers.ID, input_workers.FAMILY, case, seen.idle,
            f"{idles(seen)} while the training thread fetches every batch itself (num_workers=0)",
            [Advice(do="num_workers 0 → 4", why="batches are then made while the device computes",
                    code=loader_code(facts, num_workers=4, persistent_workers=True))],
        )  # fmt: skip
    if seen.worker is None or seen.worker < BUSY_WORKER_PCT:
        return
    case = idle_case(facts, seen)
    case.at_least("CPU of each worker", seen.worker, BUSY_WORKER_PCT, "%", "process", 2.0)
    case.at_most("CPU time waiting for I/O", facts.machine.iowait_pct, input_cpu.QUIET_IOWAIT_PCT, "%", "host", 0.75)
    at = f"{idles(seen)} while each loader worker is at {seen.worker:.0f} % CPU"
    if seen.worker >= input_oversubscribed.THREADED_PCT:
        yield named(
            input_oversubscribed.ID, input_oversubscribed.FAMILY, case, seen.idle,
            f"{at}: each runs several threads, which fight for the cores",
            [Advice(do="one thread for each worker", why="numeric libraries open a thread pool in every worker",
                    code=input_oversubscribed.ONE_THREAD)],
        )  # fmt: skip
    elif _has_room(facts, seen, case):
        more = max(4, 2 * (seen.workers or 1))
        yield named(
            input_workers.ID, input_workers.FAMILY, case, seen.idle,
            f"{at}: {count(seen.workers or 1, 'worker')} can't keep up, and cores are left",
            [Advice(do=f"num_workers {seen.workers or 1} → {more}", why="they never rest, the device does",
                    code=loader_code(facts, num_workers=more))],
        )  # fmt: skip
    else:
        yield named(
            input_cpu.ID, input_cpu.FAMILY, case, seen.idle, f"{at}: making the batches takes all their time",
            [Advice(do=f"do less CPU work per sample: {CHEAPER}",
                    why="the workers never rest, the device does")],
        )  # fmt: skip


def crowd(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    """Workers that share too few cores: none of them gets much of one, and together they use all that there is."""
    machine, workers = facts.machine, seen.workers
    if seen.idle < IDLE_PCT or not workers or seen.worker is None or not machine.cores:
        return
    each, taken = workers / machine.cores, workers * seen.worker / machine.cores
    if each < CROWDED or taken < CROWD_TAKES_PCT or seen.worker >= BUSY_WORKER_PCT:
        return
    case = idle_case(facts, seen)
    case.at_least("workers for each usable core", each, CROWDED, "", "loader", 2.0)
    case.at_least("usable cores that the workers take", taken, CROWD_TAKES_PCT, "%", "process", 1.5)
    case.at_most("CPU time waiting for I/O", machine.iowait_pct, input_cpu.QUIET_IOWAIT_PCT, "%", "host", 0.75)
    case.missing(0.5)
    of = f" of {machine.cores_all}" if machine.cores_all and machine.cores_all > machine.cores else ""
    fewer = max(1, int(machine.cores) - 1)
    advice = Advice(do=f"num_workers {workers} → {fewer}, or let the process use more cores",
                    why=f"{count(workers, 'worker')} take turns on {count(machine.cores, 'core')}",
                    code=loader_code(facts, num_workers=fewer))  # fmt: skip
    yield named(
        input_oversubscribed.ID, input_oversubscribed.FAMILY, case, seen.idle,
        f"{idles(seen)} while {count(workers, 'loader worker')} share {count(machine.cores, 'usable core')}{of}",
        [advice],
    )  # fmt: skip


def _has_room(facts: Facts, seen: Seen, case: Case) -> bool:
    """Whether cores are left for more workers; weighed, half in favour where nothing is known of the cores."""
    room = room_share(facts, seen.workers)
    free = free_share(facts)
    known = [share for share in (room, free) if share is not None]
    if known:
        roomy = min(known) >= FREE_SHARE
        case.weigh("usable cores that are left", 100 * min(known), True, "%", "host", 1.0, 100 * FREE_SHARE)
        return roomy
    case.missing(1.5)
    return seen.workers is not None and seen.workers <= FEW_WORKERS


def storage(facts: Facts, seen: Seen) -> Iterator[Candidate]:
    machine, away = facts.machine, remote(facts)
    resting = seen.worker is not None and seen.worker <= IDLE_WORKER_PCT
    calm = (seen.main or 0.0) < BUSY_MAIN_PCT
    if seen.idle < IDLE_PCT or (seen.worker or 0.0) >= BUSY_WORKER_PCT or not calm:
        return
    case = idle_case(facts, seen)
    stuck = None if machine.workers_in_disk_wait is None else 100 * machine.workers_in_disk_wait
    busy = case.any_of(
        2.0,
        "host",
        ("disk busy", machine.disk_busy_pct, input_disk.DISK_BUSY_PCT, "%"),
        ("CPU time waiting for I/O", machine.iowait_pct, input_disk.IOWAIT_PCT, "%"),
        ("looks that found workers in disk wait", stuck, 100 * DISK_WAIT_SHARE, "%"),
    )
    if away:
        case.weigh("file system of the data set", away, True, None, "loader", 1.5)
    if not (busy or (away and resting)):
        return
    case.at_most("CPU of each worker", seen.worker, IDLE_WORKER_PCT, "%", "process")
    yield named(
        input_disk.ID, input_disk.FAMILY, case, seen.idle,
        f"{idles(seen)} while storage is waited for" + (f" (the data lies on {away})" if away else ""),
        [Advice(do="move the data set to a local SSD or into RAM", why="reads are the limit, not the CPU",
                code="cp -r DATASET /dev/shm/  # or a local NVMe disk")],
    )  # fmt: skip
