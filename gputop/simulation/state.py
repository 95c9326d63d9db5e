"""What a simulated machine shows to a sampler: counters and gauges of one moment, and the file that carries them."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from gputop.simulation.rig import Rig

SAMPLE_NS = 166_666_667
"""The driver's own sampling period: 1/6 s, the shortest that NVML documents."""

SAMPLES = 24
"""How many of the driver's samples are kept: 4 s."""

GPU_UUID = "GPU-00000000-0000-4000-8000-simulated000"
GPU_PCI = "00000000:00:00.0"


def gpu_uuid(rank: int) -> str:
    """The id of the one GPU that a rank's machine has."""
    return f"{GPU_UUID[:-3]}{rank:03d}" if rank else GPU_UUID


class State(msgspec.Struct, frozen=True, kw_only=True):
    """One moment. `t` and `util_t` are ns of some clock; `util_pct` are the driver's samples from `util_t` on.

    `*_cpu_ns`, `read_bytes` and `written_bytes` count from the start of the run.
    """

    t: int
    pid: int
    host: str
    run_id: str | None
    cores: int
    mem_used_bytes: int
    mem_total_bytes: int
    main_cpu_ns: float
    compute_cpu_ns: float
    worker_cpu_ns: list[float]
    other_cpu_ns: float
    read_bytes: float
    written_bytes: float
    gpu_uuid: str
    gpu_name: str
    gpu_used: bool
    gpu_mem_bytes: int
    gpu_mem_total_bytes: int
    util_t: int
    util_pct: list[float]
    power_w: float
    power_limit_w: float
    temp_c: float
    temp_slowdown_c: float
    clock_mhz: int
    clock_max_mhz: int
    throttled_ns: int
    main_queued_ns: float = 0.0
    worker_queued_ns: list[float] = []
    worker_reading_ns: list[float] = []
    disk_busy_ns: float = 0.0
    others: int = 0
    worker_threads: int = 1
    neighbour_share: float = 0.0


def shifted(state: State, offset_ns: int) -> State:
    """The state with its times on another clock."""
    return msgspec.structs.replace(state, t=state.t + offset_ns, util_t=state.util_t + offset_ns)


def observe(rig: Rig, *, pid: int, host: str, run_id: str | None = None, offset_ns: int = 0) -> State:
    """The machine's state now, `offset_ns` added to the rig's clock."""
    now, physics, gpu = rig.clock.now(), rig.physics, rig.physics.gpu
    last = now // SAMPLE_NS
    first = max(last - SAMPLES, rig.started // SAMPLE_NS)
    power = rig.device.power.mean(now - 1_000_000_000, now)
    return State(
        t=now + offset_ns,
        pid=pid,
        host=host,
        run_id=run_id,
        cores=physics.machine.cores,
        mem_used_bytes=physics.machine.mem_used_bytes,
        mem_total_bytes=physics.machine.mem_total_bytes,
        main_cpu_ns=rig.main_cpu.total(now),
        compute_cpu_ns=rig.compute_cpu.total(now),
        worker_cpu_ns=[cpu.total(now) for cpu in rig.loader.worker_cpu],
        other_cpu_ns=sum(cpu.total(now) for cpu in rig.validation.worker_cpu),
        read_bytes=rig.loader.bytes_read.total(now) + rig.validation.bytes_read.total(now),
        written_bytes=rig.disk_written.total(now),
        gpu_uuid=gpu_uuid(rig.rank),
        gpu_name=gpu.name,
        gpu_used=physics.model.on_device,
        gpu_mem_bytes=rig.device.mem_reserved_bytes,
        gpu_mem_total_bytes=gpu.mem_total_bytes,
        util_t=first * SAMPLE_NS + offset_ns,
        util_pct=[
            round(100 * (share + (1 - share) * gpu.neighbour_share), 1)
            for share in rig.device.busy.cells(first * SAMPLE_NS, last - first, SAMPLE_NS)
        ],
        power_w=round(gpu.power_idle_w + (gpu.power_limit_w - gpu.power_idle_w) * power, 1),
        power_limit_w=gpu.power_limit_w,
        temp_c=round(rig.temp_c, 1),
        temp_slowdown_c=gpu.slowdown_c,
        clock_mhz=rig.clock_mhz,
        clock_max_mhz=gpu.clock_max_mhz,
        throttled_ns=rig.throttled_ns,
        main_queued_ns=rig.main_queued.total(now),
        worker_queued_ns=[queued.total(now) for queued in rig.loader.worker_queued],
        worker_reading_ns=[reading.total(now) for reading in rig.loader.worker_reading],
        disk_busy_ns=rig.loader.disk.total(now),
        others=physics.machine.others,
        worker_threads=physics.input.worker_threads,
        neighbour_share=gpu.neighbour_share if physics.model.on_device else 0.0,
    )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(State).decode


def write(state: State, path: Path) -> None:
    """Replace the file at once, so that a reader finds one whole state or the other."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(_encode(state))
    os.replace(new, path)


def read(path: Path) -> State | None:
    """The state in the file; None when there is none (not yet, or no longer)."""
    try:
        return _decode(path.read_bytes())
    except (OSError, msgspec.DecodeError, msgspec.ValidationError):
        return None
