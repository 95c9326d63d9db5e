"""What samplers read off a simulated machine: two of its states turned into gpu, burst, host and process records."""

from __future__ import annotations

from collections.abc import Callable

from gputop import records
from gputop.simulation.state import GPU_PCI, SAMPLE_NS, State

CONTEXT_BYTES = 520 << 20
"""Device memory that a CUDA context takes besides what the allocator holds."""

NEIGHBOUR_PID = 9900
"""The first process id of those that share the simulated machine or device."""

BACKGROUND_CORES = 0.15
"""CPU that the rest of the simulated machine uses, in cores."""


def gpu(state: State) -> records.Gpu:
    """The device as its driver would show it; `util_pct` is the mean of the driver's samples of the last second."""
    recent = state.util_pct[-6:]
    used = state.gpu_mem_bytes + CONTEXT_BYTES if state.gpu_used else 0
    throttled = state.clock_mhz < state.clock_max_mhz
    return records.Gpu(
        t=state.t,
        host=state.host,
        gpu_uuid=state.gpu_uuid,
        gpu_index=0,
        gpu_pci=GPU_PCI,
        name=state.gpu_name,
        util_pct=round(sum(recent) / len(recent)) if recent else None,
        mem_used_bytes=used,
        mem_total_bytes=state.gpu_mem_total_bytes,
        power_w=state.power_w,
        power_limit_w=state.power_limit_w,
        power_limit_default_w=state.power_limit_w,
        temp_c=state.temp_c,
        temp_slowdown_c=state.temp_slowdown_c,
        sm_clock_mhz=state.clock_mhz,
        sm_clock_max_mhz=state.clock_max_mhz,
        throttle=["thermal_sw"] if throttled else ([] if any(recent) else ["idle"]),
        throttled_ns={"thermal_sw": state.throttled_ns},
        pcie_gen=5,
        pcie_gen_max=5,
        pcie_width=16,
        pcie_width_max=16,
        processes=_processes(state, used, sum(recent) / len(recent) if recent else 0.0),
        simulated=True,
    )


def _processes(state: State, used: int, util_pct: float) -> list[records.GpuProcess]:
    """The processes on the device: the training, where it uses it, and a neighbour."""
    other_pct = 100 * state.neighbour_share
    found = []
    if state.gpu_used:
        own = max(0.0, util_pct - other_pct)
        found.append(records.GpuProcess(pid=state.pid, mem_bytes=used, sm_pct=round(own, 1), name="python"))
    if state.neighbour_share:
        found.append(
            records.GpuProcess(pid=NEIGHBOUR_PID, mem_bytes=8 << 30, sm_pct=round(other_pct, 1), name="python3")
        )
    return found


def burst(state: State, since: State | None) -> records.Burst | None:
    """The driver's samples that ended since the last state; None when there is none."""
    known = since.util_t + len(since.util_pct) * SAMPLE_NS - SAMPLE_NS // 2 if since else 0
    pairs = [(i * SAMPLE_NS, pct) for i, pct in enumerate(state.util_pct) if state.util_t + i * SAMPLE_NS >= known]
    if not pairs:
        return None
    first = pairs[0][0]
    return records.Burst(
        t=state.util_t + first,
        host=state.host,
        gpu_uuid=state.gpu_uuid,
        dt_ns=[dt - first for dt, _ in pairs],
        util_pct=[pct for _, pct in pairs],
    )


def host(state: State, since: State) -> records.Host:
    """The machine between two states; every core busy is 100 %."""
    rate = _per_ns(state, since)
    main, compute, other = rate("main_cpu_ns"), rate("compute_cpu_ns"), rate("other_cpu_ns")
    workers = _workers(state, since)
    own = main + compute + other + sum(workers)
    busy = min(state.cores, own + others_cores(state, own) + BACKGROUND_CORES)
    reading = sum(_share(state, since, "worker_reading_ns"))
    disk_pct = min(100.0, 100 * rate("disk_busy_ns"))
    return records.Host(
        t=state.t,
        host=state.host,
        cpu_pct=round(100 * busy / state.cores, 1),
        user_pct=round(96 * busy / state.cores, 1),
        system_pct=round(4 * busy / state.cores, 1),
        iowait_pct=round(100 * min(reading, state.cores - busy) / state.cores, 1),
        steal_pct=0.0,
        per_core_pct=_cores([main, *workers], busy, state.cores),
        cores=state.cores,
        load1=round(_wanting(state, since, busy), 2),
        disk_busy_pct=round(disk_pct, 1),
        mem_used_bytes=state.mem_used_bytes,
        mem_total_bytes=state.mem_total_bytes,
        swap_used_bytes=0,
        swap_in_bytes_s=0.0,
        disk_read_bytes_s=round(rate("read_bytes") * 1e9),
        disk_write_bytes_s=round(rate("written_bytes") * 1e9),
    )


def process(state: State, since: State) -> records.Process:
    """The training process and its loader's workers between two states; one core busy is 100 %."""
    rate = _per_ns(state, since)
    main, workers = rate("main_cpu_ns"), _workers(state, since)
    read_bytes_s = rate("read_bytes") * 1e9
    reading = _share(state, since, "worker_reading_ns")
    queued = _share(state, since, "worker_queued_ns")
    return records.Process(
        t=state.t,
        host=state.host,
        pid=state.pid,
        run_id=state.run_id,
        name="python",
        cpu_pct=round(100 * (main + rate("compute_cpu_ns")), 1),
        main_thread_cpu_pct=round(100 * main, 1),
        main_thread_wait_pct=round(100 * rate("main_queued_ns"), 1),
        rss_bytes=5 << 30,
        threads=24,
        cores_allowed=state.cores,
        state="R" if main > 0.5 else "S",
        read_bytes_s=0.0 if workers else round(read_bytes_s),
        workers=[
            records.Worker(
                pid=state.pid + 1 + i,
                cpu_pct=round(100 * cpu, 1),
                wait_pct=round(100 * queued[i], 1),
                threads=state.worker_threads,
                state="D" if reading[i] > 0.5 else "R" if cpu > 0.5 else "S",
                read_bytes_s=round(read_bytes_s / len(workers)),
                rss_bytes=1 << 30,
            )
            for i, cpu in enumerate(workers)
        ],
    )


def _per_ns(state: State, since: State) -> Callable[[str], float]:
    """Rates of a state's counters since an earlier one, per nanosecond."""
    ns = max(1, state.t - since.t)

    def rate(counter: str) -> float:
        change: float = getattr(state, counter) - getattr(since, counter)
        return max(0.0, change) / ns

    return rate


def _workers(state: State, since: State) -> list[float]:
    ns = max(1, state.t - since.t)
    return [
        min(float(state.worker_threads), max(0.0, (now - before) / ns))
        for now, before in zip(state.worker_cpu_ns, since.worker_cpu_ns, strict=True)
    ]


def _share(state: State, since: State, counters: str) -> list[float]:
    """Share of the time between two states that each worker spent in what `counters` count."""
    ns = max(1, state.t - since.t)
    after, before_all = getattr(state, counters), getattr(since, counters)
    if len(after) != len(before_all):
        return [0.0] * len(state.worker_cpu_ns)
    pairs = zip(after, before_all, strict=True)
    return [min(1.0, max(0.0, (now - before) / ns)) for now, before in pairs]


def others_cores(state: State, own: float) -> float:
    """Cores that other processes have: what they want, as far as the run leaves it."""
    return min(float(state.others), max(0.0, state.cores - own))


def neighbours(state: State, since: State) -> list[records.Process]:
    """The other processes that want cores, one thread each."""
    rate = _per_ns(state, since)
    own = rate("main_cpu_ns") + rate("compute_cpu_ns") + rate("other_cpu_ns") + sum(_workers(state, since))
    each = others_cores(state, own) / max(1, state.others)
    return [
        records.Process(
            t=state.t, host=state.host, pid=NEIGHBOUR_PID + 1 + i, name="make", cpu_pct=round(100 * each, 1)
        )
        for i in range(state.others)
    ]


def _wanting(state: State, since: State, busy: float) -> float:
    """Threads that run, want to run or wait for the disk: what the kernel's load counts."""
    running = busy if not state.others else max(busy, busy - others_cores(state, busy) + state.others)
    return running + sum(_share(state, since, "worker_reading_ns"))


def _cores(threads: list[float], busy: float, cores: int) -> list[float]:
    """Each busy thread on a core of its own, what is left spread over the others."""
    loads = sorted(threads, reverse=True)[:cores] + [0.0] * (cores - len(threads))
    room = sum(1.0 - load for load in loads)
    rest = max(0.0, busy - sum(loads)) / room if room else 0.0
    return [round(min(100.0, 100 * (load + (1.0 - load) * rest)), 1) for load in loads]
