"""What is known of the device in a window: where the run computes, and how the driver saw its GPU."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from gputop import visible
from gputop.diagnosis.numbers import known, mean, quantile
from gputop.pids import Pid
from gputop.records import Gpu, GpuProcess, Run, Step
from gputop.window import Window, allowed

HARMFUL = frozenset(("thermal_hw", "thermal_sw", "hw_slowdown", "power_brake"))
"""Reasons for lowered clocks that are faults. A software power cap is a busy card's normal state."""

BUSY_PCT = 30.0
"""Utilization from which a sample shows a working GPU: clocks and links of a resting one say nothing."""


FULL_PCT = 95.0
"""Utilization from which less power means slower work and not less of it."""

WORKING_PCT = 5.0
"""Utilization of the machine's only GPU from which a run that doesn't say its device is taken to compute there."""


RESTING_SAMPLES = 3
"""Samples without any use of the machine's only GPU from which it rests: one may have looked between bursts."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """The run's device. `on_gpu`: whether it computes on a GPU (None: not known). Means are over the window's samples.

    `listed`: whether the driver lists the run's process on a GPU here (None: it lists none at all, or there is no GPU).
    `clock_ratio`: SM clock over its maximum in busy samples. `clock_sag`, `power_sag`: the recent fall of either, as a
    share; of power in samples of full use. `power_ratio`: power over the enforced limit.
    """

    on_gpu: bool | None
    name: str
    gpus_present: int | None
    samples: int
    listed: bool | None = None
    params_on_cpu_pct: float | None = None
    util_pct: float | None = None
    util_p10_pct: float | None = None
    util_p90_pct: float | None = None
    burst_pct: float | None = None
    burst_max_pct: float | None = None
    burst_period_ms: float | None = None
    mem_util_pct: float | None = None
    mem_used_bytes: int | None = None
    mem_total_bytes: int | None = None
    mem_own_bytes: int | None = None
    power_w: float | None = None
    power_ratio: float | None = None
    power_sag: float | None = None
    limit_ratio: float | None = None
    clock_ratio: float | None = None
    clock_sag: float | None = None
    temp_c: float | None = None
    sm_active_pct: float | None = None
    throttled_share: float | None = None
    throttle: tuple[str, ...] = ()
    link_ratio: float | None = None
    neighbours: tuple[GpuProcess, ...] = ()
    simulated: bool = False

    @property
    def mem_pct(self) -> float | None:
        """Device memory in use, of all of it."""
        if self.mem_used_bytes is None or not self.mem_total_bytes:
            return None
        return 100 * self.mem_used_bytes / self.mem_total_bytes


def read_device(window: Window) -> Device:
    """The device of a window's run."""
    gpus = window.gpu
    busy = [gpu for gpu in gpus if gpu.util_pct is None or gpu.util_pct >= BUSY_PCT]
    full = [gpu for gpu in gpus if gpu.util_pct is not None and gpu.util_pct >= FULL_PCT]
    last = gpus[-1] if gpus else None
    utils = known([gpu.util_pct for gpu in gpus])
    bursts = [value for burst in window.bursts for value in burst.util_pct]
    flags = [bool(HARMFUL.intersection(gpu.throttle)) for gpu in busy if gpu.throttle is not None]
    clocks = known([_ratio(gpu.sm_clock_mhz, gpu.sm_clock_max_mhz) for gpu in busy])
    return Device(
        on_gpu=computes_on_gpu(window),
        name=_name(window),
        gpus_present=window.gpus_present,
        samples=len(gpus),
        listed=_listed(window),
        params_on_cpu_pct=_params_on_cpu(window),
        util_pct=mean(utils),
        util_p10_pct=quantile(utils, 0.1),
        util_p90_pct=quantile(utils, 0.9),
        burst_pct=mean(bursts),
        burst_max_pct=max(bursts, default=None),
        burst_period_ms=_burst_period(window),
        mem_util_pct=mean(known([gpu.mem_util_pct for gpu in gpus])),
        mem_used_bytes=last.mem_used_bytes if last else None,
        mem_total_bytes=last.mem_total_bytes if last else None,
        mem_own_bytes=_own_memory(window),
        power_w=mean(known([gpu.power_w for gpu in gpus])),
        power_ratio=mean(known([_ratio(gpu.power_w, gpu.power_limit_w) for gpu in gpus])),
        power_sag=_sag(known([gpu.power_w for gpu in full])),
        limit_ratio=_ratio(last.power_limit_w, last.power_limit_default_w) if last else None,
        clock_ratio=mean(clocks),
        clock_sag=_sag(clocks),
        temp_c=mean(known([gpu.temp_c for gpu in gpus])),
        sm_active_pct=mean(known([gpu.sm_active_pct for gpu in gpus])),
        throttled_share=mean([float(flag) for flag in flags]),
        throttle=tuple(sorted({reason for gpu in busy for reason in gpu.throttle or ()})),
        link_ratio=_link(busy),
        neighbours=_neighbours(window),
        simulated=bool(window.run.simulated) or any(gpu.simulated for gpu in gpus),
    )


def with_only_gpu(window: Window) -> Window:
    """The window with the machine's only GPU as the run's, where nothing says which device the run computes on."""
    run = window.run
    if window.gpu or run.device is not None or len(window.all_gpus) != 1 or visible.hides_all(allowed(run)):
        return window
    return msgspec.structs.replace(window, gpu=window.all_gpus, gpu_match="only")


def computes_on_gpu(window: Window) -> bool | None:
    """Whether the run computes on a GPU: by its own word, its parameters, its device events, the driver's list."""
    device = window.run.device
    params = window.model.devices if window.model else None
    if params and not device:
        return any(not name.startswith("cpu") and count for name, count in params.items())
    if params and device and not device.startswith("cpu") and all(name.startswith("cpu") for name in params):
        return False
    if device:
        return not device.startswith("cpu")
    if window.run.gpu_uuid or window.run.gpu_pci or window.run.gpu_name:
        return True
    if any(_touches_gpu(step) for step in window.steps):
        return True
    if window.gpu_match in ("uuid", "pci", "pid"):
        return True
    if window.gpu_match in ("visible", "only") and any((gpu.util_pct or 0.0) >= WORKING_PCT for gpu in window.gpu):
        return True
    return False if window.gpus_present == 0 or _unused(window) else None


def _unused(window: Window) -> bool:
    """Whether the driver lists the run on none of its GPUs and none of them works: the run computes on the CPU."""
    utils = [gpu.util_pct for gpu in (*window.all_gpus, *window.gpu)]
    rests = len(window.gpu) >= RESTING_SAMPLES or len(window.all_gpus) > 1
    return rests and _listed(window) is False and all(util is not None and util < 1 for util in utils)


def _touches_gpu(step: Step) -> bool:
    """Whether a step carries what only a run on a GPU has: device times, a queue, copies to it."""
    figures = step.gpu_ns or step.gpu_idle_ns or step.h2d_bytes or step.phases_ns.get("h2d")
    return bool(figures) or step.queue_empty is not None


def _name(window: Window) -> str:
    named = window.run.gpu_name or (window.gpu[-1].name if window.gpu else None)
    return named or "the GPU"


RESERVING = ("tensorflow", "jax")
"""Frameworks that take nearly all of the device's memory at the start."""


def reserves(run: Run) -> bool:
    """Whether how full the device's memory is says nothing of what the run needs."""
    return run.framework in RESERVING


def own_pid(window: Window) -> Pid:
    """The run's process as the machine numbers it, which is another number for a run in a container."""
    run, last = window.run, window.process[-1] if window.process else None
    return Pid(run.pid, run.start_ticks) if last is None else Pid(last.pid, run.start_ticks or last.start_ticks)


def pid_of(process: GpuProcess) -> Pid:
    """Which process a row of the driver's list means."""
    return Pid(process.pid, process.start_ticks)


def _listed(window: Window) -> bool | None:
    """Whether the driver lists the run's process on any GPU; None where a GPU's list is not known."""
    own = own_pid(window)
    if any(own.agrees(pid_of(process)) for gpu in window.all_gpus for process in gpu.processes or ()):
        return True
    known_lists = [gpu.processes is not None for gpu in window.all_gpus]
    return False if known_lists and all(known_lists) else None


def _params_on_cpu(window: Window) -> float | None:
    params = window.model.devices if window.model else None
    whole = sum(params.values()) if params else 0
    if not params or not whole:
        return None
    return 100 * sum(count for name, count in params.items() if name.startswith("cpu")) / whole


def _own_memory(window: Window) -> int | None:
    if not window.gpu or window.gpu[-1].processes is None:
        return None
    own = own_pid(window)
    sizes = [process.mem_bytes for process in window.gpu[-1].processes if own.agrees(pid_of(process))]
    return next((size for size in sizes if size is not None), None)


def _neighbours(window: Window) -> tuple[GpuProcess, ...]:
    """Other processes that were seen computing on the run's device, the busiest sample of each."""
    runs = (window.run, *(peer.run for peer in window.peers))
    ours = [own_pid(window), *(Pid(run.pid, run.start_ticks) for run in runs)]
    seen: dict[Pid, GpuProcess] = {}
    latest: dict[int, Pid] = {}
    for gpu in window.gpu:
        for process in gpu.processes or ():
            pid = pid_of(process)
            if pid.start is None:
                pid = latest.get(pid.number, pid)  # one that is just ending tells its start no more
            latest[pid.number] = pid
            before = seen.get(pid)
            if before is not None and (process.sm_pct or 0) <= (before.sm_pct or 0):
                continue
            if not any(pid.agrees(own) for own in ours):
                seen[pid] = process
    return tuple(sorted(seen.values(), key=lambda process: -(process.sm_pct or 0)))


def _ratio(part: float | None, whole: float | None) -> float | None:
    return part / whole if part is not None and whole else None


def _sag(values: list[float]) -> float | None:
    """How far clock or power fell from its own 90th percentile to its recent mean, as a share of the former."""
    top = quantile(values, 0.9)
    recent = mean(values[-max(1, len(values) // 3) :])
    return None if not top or recent is None else max(0.0, 1 - recent / top)


def _link(busy: list[Gpu]) -> float | None:
    """PCIe bandwidth in use over the rated one, at the best sample: links rest at a low generation."""
    links = {(gpu.pcie_gen, gpu.pcie_gen_max, gpu.pcie_width, gpu.pcie_width_max) for gpu in busy}
    rates = [
        2.0 ** (gen - gen_max) * width / width_max
        for gen, gen_max, width, width_max in links
        if gen is not None and gen_max and width is not None and width_max
    ]
    return max(rates, default=None)


def _burst_period(window: Window) -> float | None:
    """Usual time between the starts of bursts in the driver's own samples, in ms; None where there is no on and off."""
    points = sorted(
        (burst.t + offset, value)
        for burst in window.bursts
        for offset, value in zip(burst.dt_ns, burst.util_pct, strict=False)
    )
    if len(points) < 8:
        return None
    values = [value for _, value in points]
    low, high = min(values), max(values)
    if high - low < 30:
        return None
    middle = (low + high) / 2
    rises = [t for (_, before), (t, now) in pairwise(points) if before < middle <= now]
    gaps = [(later - earlier) / 1e6 for earlier, later in pairwise(rises)]
    return quantile(gaps, 0.5) if len(gaps) >= 3 else None
