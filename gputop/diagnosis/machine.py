"""What is known of the machine in a window: cores, who uses them, disks, the run's process and its loader workers."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import msgspec

from gputop.diagnosis.numbers import known, mean
from gputop.records import Disk, Host, Loader, Process, Worker
from gputop.window import Window

QUOTA_SHARE = 0.05
"""Share of the time that the cgroup's quota holds the process back from which it counts."""

STARVED_WORKER_PCT = 60.0
"""CPU of one loader worker below which, with no core free, it queues for a core instead of running."""

PLAIN_THREADS = 3
"""Threads of a loader worker without a thread pool: its own, its queue's, its watch for the training's end."""


OPERATORS_PCT = 200.0
"""CPU of a training process itself (one core = 100), its workers left out, from which operators compute on the CPU:
launching takes one thread."""

READING_BYTES_S = 1e6
"""Read calls below which nothing is said of the page cache: queues and modules are read too."""


class _Storage(NamedTuple):
    name: str | None
    read_bytes_s: float | None
    busy_pct: float | None
    await_ns: float | None


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """Means over the window. CPU figures of processes count one core as 100; `cpu_pct` counts all cores as 100.

    `cores` are those that the run may use: the least of its affinity mask, the cgroup's quota and the machine's cores.
    `free_cores` are those of them that nobody used.
    `main_wait_pct`: wall time that the training thread was ready to run and had no core.
    `process_pct`: CPU of the process itself, all its threads, without its workers.
    `worker_wait_pct`: the same of a loader worker, on average.
    `throttled_share`: how much of the time the cgroup was held back.
    `disk`: the disk that holds the data set, else the busiest; `disk_busy_pct` and `disk_await_ms` are its own.
    `cached_pct`: how much of what the run read came out of the page cache (None: it hardly reads).
    """

    cores: float | None = None
    cores_all: int | None = None
    free_cores: float | None = None
    cpu_pct: float | None = None
    system_pct: float | None = None
    iowait_pct: float | None = None
    steal_pct: float | None = None
    others_cores: float | None = None
    load_per_core: float | None = None
    psi_cpu_pct: float | None = None
    psi_io_pct: float | None = None
    psi_mem_pct: float | None = None
    mem_pct: float | None = None
    throttled_share: float | None = None
    disk: str | None = None
    disk_read_bytes_s: float | None = None
    disk_busy_pct: float | None = None
    disk_await_ms: float | None = None
    net_recv_bytes_s: float | None = None
    swap_in_bytes_s: float | None = None
    main_pct: float | None = None
    process_pct: float | None = None
    main_wait_pct: float | None = None
    own_pct: float | None = None
    worker_pct: float | None = None
    worker_wait_pct: float | None = None
    workers: int | None = None
    worker_threads: float | None = None
    worker_system_pct: float | None = None
    workers_in_disk_wait: float | None = None
    read_bytes_s: float | None = None
    rchar_bytes_s: float | None = None
    cached_pct: float | None = None


def read_machine(window: Window, loader: Loader | None) -> Machine:
    """The machine of a window, and of the run's process on it."""
    hosts, processes = window.host, window.process
    cores_all = next((host.cores for host in reversed(hosts) if host.cores), None) or window.run.cores
    quota = next((host.cpu_quota_cores for host in reversed(hosts) if host.cpu_quota_cores), None)
    allowed = next((process.cores_allowed for process in reversed(processes) if process.cores_allowed), None)
    cores = min(known([window.run.cores_allowed or allowed, quota, cores_all]), default=None)
    cpu_pct = mean(known([host.cpu_pct for host in hosts]))
    workers = [_of_loader(process, loader) for process in processes]
    seen = [worker for sample in workers for worker in sample]
    worker_pct = mean(known([worker.cpu_pct for worker in seen]))
    worker_count = round(sum(map(len, workers)) / len(workers)) if workers and any(workers) else None
    own = _own(processes, worker_pct, worker_count)
    disk = _disk(hosts, loader)
    read, rchar = _reads(processes, workers, "read_bytes_s"), _reads(processes, workers, "rchar_bytes_s")
    return Machine(
        cores=cores,
        cores_all=cores_all,
        free_cores=_free(cores, cores_all, cpu_pct, own),
        cpu_pct=cpu_pct,
        system_pct=mean(known([host.system_pct for host in hosts])),
        iowait_pct=mean(known([host.iowait_pct for host in hosts])),
        steal_pct=mean(known([host.steal_pct for host in hosts])),
        others_cores=_others(window, cores_all, cpu_pct, own),
        load_per_core=_load(hosts, cores_all),
        psi_cpu_pct=mean(known([host.psi_cpu_pct for host in hosts])),
        psi_io_pct=mean(known([host.psi_io_pct for host in hosts])),
        psi_mem_pct=mean(known([host.psi_mem_pct for host in hosts])),
        mem_pct=_memory(hosts),
        throttled_share=_throttled(hosts),
        disk=disk.name,
        disk_read_bytes_s=disk.read_bytes_s,
        disk_busy_pct=disk.busy_pct,
        disk_await_ms=_ms(disk.await_ns),
        net_recv_bytes_s=mean(known([host.net_recv_bytes_s for host in hosts])),
        swap_in_bytes_s=mean(known([host.swap_in_bytes_s for host in hosts])),
        main_pct=mean(known([process.main_thread_cpu_pct for process in processes])),
        process_pct=mean(known([process.cpu_pct for process in processes])),
        main_wait_pct=mean(known([process.main_thread_wait_pct for process in processes])),
        own_pct=own,
        worker_pct=worker_pct,
        worker_wait_pct=mean(known([worker.wait_pct for worker in seen])),
        workers=worker_count,
        worker_threads=mean(known([worker.threads for worker in seen])),
        worker_system_pct=mean(known([worker.system_pct for worker in seen])),
        workers_in_disk_wait=_waiting(seen),
        read_bytes_s=read,
        rchar_bytes_s=rchar,
        cached_pct=_cached(read, rchar),
    )


def training_loader(window: Window, loader_ids: Counter[int]) -> Loader | None:
    """The configuration of the loader that fed most steps; where steps don't say, the only loader there is."""
    for loader_id, _ in loader_ids.most_common():
        if loader_id in window.loaders:
            return window.loaders[loader_id]
    if len(window.loaders) == 1 and not loader_ids:
        return next(iter(window.loaders.values()))
    return None


def busiest_pct(machine: Machine) -> float | None:
    """CPU of the training process itself: of its main thread, or of all its threads where another one trains."""
    return max(known([machine.main_pct, machine.process_pct]), default=None)


def part_of_others(machine: Machine) -> float | None:
    """Others' part of the use that the training thread competes with: the rest is the run's own workers and threads."""
    if machine.others_cores is None or machine.own_pct is None:
        return None
    kin = max(0.0, machine.own_pct - (machine.main_pct if machine.main_pct is not None else 100.0)) / 100
    whole = machine.others_cores + kin
    return machine.others_cores / whole if whole > 0 else 0.0


def switching_pct(machine: Machine) -> float | None:
    """The kernel's part, percent, of the CPU time of workers that have more threads than there are cores.

    Threads of a pool that hand each other small tasks, and a core with it, spend much of their time there. None where
    the workers have no such pool.
    """
    if machine.worker_threads is None or not machine.cores or machine.worker_threads <= machine.cores + PLAIN_THREADS:
        return None
    if not machine.worker_pct or machine.worker_system_pct is None:
        return None
    return min(100.0, 100 * machine.worker_system_pct / machine.worker_pct)


def _of_loader(process: Process, loader: Loader | None) -> list[Worker]:
    """A process's children that are workers of `loader`; all of them where the loader doesn't name its own."""
    workers = process.workers or []
    named = set(loader.worker_pids or ()) if loader else set()
    ours = [worker for worker in workers if worker.pid in named]
    return ours or workers


def _own(processes: tuple[Process, ...], worker_pct: float | None, workers: int | None) -> float | None:
    """CPU of the run's processes. Workers that live for less than two samples show only in the whole tree's time."""
    tree = mean(known([process.tree_cpu_pct for process in processes]))
    if tree is not None:
        return tree
    main = mean(known([process.cpu_pct for process in processes]))
    if main is None:
        main = mean(known([process.main_thread_cpu_pct for process in processes]))
    if main is None:
        return None
    return main + (worker_pct or 0.0) * (workers or 0)


def _free(cores: float | None, cores_all: int | None, cpu_pct: float | None, own: float | None) -> float | None:
    if cores is None or cores_all is None or cpu_pct is None:
        return None
    free = cores_all * max(0.0, 100 - cpu_pct) / 100
    if cores == cores_all:
        return free
    return None if own is None else max(0.0, min(free, cores - own / 100))


def _others(window: Window, cores_all: int | None, cpu_pct: float | None, own: float | None) -> float | None:
    """Cores that other processes use: all that is used less the run's own, else what is known of the others."""
    if cores_all is None or cpu_pct is None:
        return None
    if own is not None:
        return max(0.0, cores_all * cpu_pct / 100 - own / 100)
    seen = known([process.cpu_pct for process in window.others])
    return min(sum(seen) / 100, cores_all * cpu_pct / 100) if seen else None


def _load(hosts: tuple[Host, ...], cores_all: int | None) -> float | None:
    load = mean(known([host.load1 for host in hosts]))
    return load / cores_all if load is not None and cores_all else None


def _memory(hosts: tuple[Host, ...]) -> float | None:
    used = [
        100 * host.mem_used_bytes / host.mem_total_bytes
        for host in hosts
        if host.mem_used_bytes is not None and host.mem_total_bytes
    ]
    return mean(used)


def _throttled(hosts: tuple[Host, ...]) -> float | None:
    """Share of wall time that the cgroup's CPU quota held its threads back, from the counter's growth; at most 1."""
    points = [(host.t, host.throttled_ns) for host in hosts if host.throttled_ns is not None]
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    return min(1.0, max(0, points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0]))


def _waiting(workers: list[Worker]) -> float | None:
    states = [worker.state for worker in workers if worker.state]
    return sum(state.startswith(("D", "disk")) for state in states) / len(states) if states else None


def _disk(hosts: tuple[Host, ...], loader: Loader | None) -> _Storage:
    """The disk that holds the data set where that is known, else all disks' traffic and the busiest one's load."""
    told = [{disk.name: disk for disk in host.disks} for host in hosts if host.disks is not None]
    name = loader.dataset_disk if loader else None
    if told and name is not None:  # a disk that is not told of had nothing to do
        own = [disks.get(name) or Disk(name=name, busy_pct=0.0, read_bytes_s=0.0) for disks in told]
        return _Storage(
            name, mean(known([one.read_bytes_s for one in own])), mean(known([one.busy_pct for one in own])),
            mean(known([one.await_ns for one in own])),
        )  # fmt: skip
    busiest = Counter(max(disks, key=lambda one: disks[one].busy_pct or 0.0) for disks in told if disks)
    return _Storage(
        busiest.most_common(1)[0][0] if busiest else None,
        mean(known([host.disk_read_bytes_s for host in hosts])), mean(known([host.disk_busy_pct for host in hosts])),
        mean(known([host.disk_await_ns for host in hosts])),
    )  # fmt: skip


def _cached(read: float | None, rchar: float | None) -> float | None:
    """Percent of the bytes read that came from no disk. What a memory map reads is only in the disk's figure."""
    if read is None or rchar is None or rchar < READING_BYTES_S:
        return None
    return 100 * max(0.0, 1 - read / rchar)


def _reads(processes: tuple[Process, ...], workers: list[list[Worker]], name: str) -> float | None:
    """Bytes a second that a process and its workers read, by the field of that name."""
    rates = []
    for process, children in zip(processes, workers, strict=True):
        parts = known([getattr(process, name), *(getattr(worker, name) for worker in children)])
        if parts:
            rates.append(sum(parts))
    return mean(rates)


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e6
