"""What a simulated run is made of: durations, sizes and resources. No field names a bottleneck."""

from __future__ import annotations

import msgspec

MS = 1_000_000
US = 1_000
GIB = 1 << 30


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated host. `others`: threads of other processes that always want a core. `gpus`: 1, or 0 for none."""

    cores: int = 12
    others: int = 0
    gpus: int = 1
    mem_total_bytes: int = 128 * GIB
    mem_used_bytes: int = 31 * GIB


class Gpu(msgspec.Struct, frozen=True, kw_only=True):
    """The simulated device. Links in bytes/s, as of PCIe 5 x16: pinned near its rating, pageable far below.

    `neighbour_share`: how much of the device's time another process takes.
    """

    name: str = "Simulated H100 80GB"
    mem_total_bytes: int = 80 * GIB
    power_idle_w: float = 72.0
    power_limit_w: float = 700.0
    clock_max_mhz: int = 1980
    clock_min_mhz: int = 600
    slowdown_c: float = 87.0
    ambient_c: float = 32.0
    c_per_w: float = 0.062
    warming_s: float = 4.0
    pinned_bytes_s: float = 48e9
    pageable_bytes_s: float = 6e9
    neighbour_share: float = 0.0


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """The data loader: `decode_ns` is one core's time for one batch, `read_bytes` what that reads from disk.

    `disk_bytes_s`: the rate of the one disk that all workers read from (0: everything lies in memory). `slow_share` of
    the batches take `slow_factor` times as long. `worker_threads`: threads that each worker's numeric libraries keep
    spinning. `restart_ns`: what starting the workers takes, at each epoch (0: they are kept).
    """

    workers: int = 8
    prefetch: int = 2
    pin_memory: bool = True
    batch: int = 128
    batches: int = 400
    batch_bytes: int = 77 * (1 << 20)
    read_bytes: int = 14 * (1 << 20)
    decode_ns: int = 300 * MS
    decode_jitter: float = 0.15
    handover_ns: int = 600 * US
    disk_bytes_s: float = 0.0
    slow_share: float = 0.0
    slow_factor: float = 1.0
    in_order: bool = True
    worker_threads: int = 1
    restart_ns: int = 0


class Model(msgspec.Struct, frozen=True, kw_only=True):
    """The work of one step: kernels of each phase, `kernel_ns` long on the device, `launch_ns` of host time each.

    `return_ns` is the way from a phase's last launch to the script's next statement. An update that is not fused
    launches the same work in `UNFUSED_OPS` kernels for each of `param_tensors`.
    """

    name: str = "ResNet"
    params: int = 44_500_000
    on_device: bool = True
    forward: int = 400
    backward: int = 800
    optimizer: int = 40
    param_tensors: int = 160
    optimizer_fused: bool = True
    kernel_ns: int = 60 * US
    optimizer_kernel_ns: int = 50 * US
    launch_ns: int = 7 * US
    return_ns: int = 30 * US
    intensity: float = 0.8
    mem_bytes: int = 41 * GIB


UNFUSED_OPS = 6
"""Operations on each parameter tensor that an update such as Adam's is made of."""


class Host(msgspec.Struct, frozen=True, kw_only=True):
    """What the loop itself does besides: `reads` device values read back one by one, each after a small kernel.

    `work_ns` of its own every `work_every` steps.
    """

    work_ns: int = 300 * US
    work_every: int = 1
    reads: int = 0
    read_kernel_ns: int = 6 * US
    read_latency_ns: int = 30 * US
    retry_every: int = 0
    retry_ns: int = 0


class Episodes(msgspec.Struct, frozen=True, kw_only=True):
    """What happens every so many steps: a validation pass, a checkpoint. 0: never. `save_rank`: who alone saves."""

    validate_every: int = 0
    validate_batches: int = 0
    validate_workers: int = 4
    validate_decode_ns: int = 60 * MS
    save_every: int = 0
    save_bytes: int = 0
    save_bytes_s: float = 1.2e9
    save_rank: int | None = None


class Ranks(msgspec.Struct, frozen=True, kw_only=True):
    """The job that the run is one rank of: ranks of one GPU and one machine each, that sum their gradients every step.

    `overlap`: the sums begin while backward still runs, `buckets` of them; else one is made after it, by the script.
    `link_bytes_s`: the slowest link of the ring; `latency_ns`: what each sum takes whatever its size. Rank `late`
    decodes `late_input` times as long, computes `late_compute` times as long and copies to its device over a link
    `late_link` times as slow; it alone works `extra_ns` every `extra_every` steps.
    """

    world: int = 1
    overlap: bool = True
    buckets: int = 12
    link_bytes_s: float = 50e9
    latency_ns: int = 40 * US
    late: int = 0
    late_input: float = 1.0
    late_compute: float = 1.0
    late_link: float = 1.0
    extra_ns: int = 0
    extra_every: int = 1


class Physics(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run. `jitter` is the relative spread of host times and kernels from step to step."""

    machine: Machine = Machine()
    gpu: Gpu = Gpu()
    input: Input = Input()
    model: Model = Model()
    host: Host = Host()
    episodes: Episodes = Episodes()
    ranks: Ranks = Ranks()
    jitter: float = 0.03
    speed: float = 1.0

    def scaled(self, ns: float) -> int:
        """A duration at this run's speed."""
        return round(ns / self.speed)
