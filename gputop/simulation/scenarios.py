"""The demo's scenarios: each a run's physics, and the same run with one cure applied. Neither names a verdict."""

from __future__ import annotations

from typing import Any

import msgspec

from gputop.simulation.physics import GIB, MS, US, Episodes, Gpu, Host, Input, Machine, Model, Physics, Ranks


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A run with something planted in it: its story, the physics, the cure in words, and the physics after it."""

    name: str
    story: str
    cure: str
    planted: Physics
    fixed: Physics

    def physics(self, *, fixed: bool = False, speed: float = 1.0) -> Physics:
        """The physics to run, at `speed` times the pace. Raises ValueError unless speed is positive."""
        if not speed > 0:
            raise ValueError(f"speed must be above 0, not {speed}")
        return msgspec.structs.replace(self.fixed if fixed else self.planted, speed=speed)


def _change(physics: Physics, **parts: dict[str, Any]) -> Physics:
    """The same physics with some fields of some of its parts changed."""
    changed = {name: msgspec.structs.replace(getattr(physics, name), **fields) for name, fields in parts.items()}
    return msgspec.structs.replace(physics, **changed)


_HEALTHY = Physics()
_FEW_WORKERS = Physics(input=Input(workers=4, decode_ns=690 * MS))
_HEAVY_DECODE = Physics(machine=Machine(cores=8), input=Input(workers=8, decode_ns=1200 * MS))
_SLOW_HOST = Physics(
    input=Input(decode_ns=160 * MS), model=Model(kernel_ns=22 * US, mem_bytes=18 * GIB), host=Host(work_ns=60 * MS)
)
_TINY_KERNELS = Physics(
    input=Input(workers=4, batch=8, batch_bytes=5 << 20, read_bytes=1 << 20, decode_ns=60 * MS),
    model=Model(
        name="EfficientNet", params=66_000_000, forward=3000, backward=5600, optimizer=800, kernel_ns=3 * US,
        optimizer_kernel_ns=3 * US, launch_ns=9 * US, intensity=0.55, mem_bytes=30 * GIB,
    ),
)  # fmt: skip
_READS = Physics(
    input=Input(batch=512, decode_ns=240 * MS),
    model=Model(forward=300, backward=560, optimizer=40, kernel_ns=50 * US),
    host=Host(reads=1536),
)
_SMALL = Physics(
    input=Input(workers=4, batch=64, batch_bytes=1 << 20, read_bytes=1 << 18, decode_ns=12 * MS, handover_ns=200 * US),
    model=Model(
        name="MLP", params=1_200_000, forward=220, backward=380, optimizer=120, kernel_ns=4 * US,
        optimizer_kernel_ns=3 * US, launch_ns=7 * US, intensity=0.2, mem_bytes=1 * GIB,
    ),
    host=Host(work_ns=120 * US),
)  # fmt: skip
_LARGER_BATCH = _change(
    _SMALL,
    input={"batch": 8192, "batch_bytes": 128 << 20, "decode_ns": 90 * MS, "workers": 8},
    model={"kernel_ns": 90 * US, "intensity": 0.7, "mem_bytes": 24 * GIB},
)
_ON_CPU = Physics(
    machine=Machine(cores=16),
    input=Input(workers=4, batch=32, batch_bytes=19 << 20, decode_ns=80 * MS),
    model=Model(on_device=False, forward=160, backward=320, optimizer=40, kernel_ns=40 * US, mem_bytes=12 * GIB),
)
_VALIDATION = Physics(episodes=Episodes(validate_every=20, validate_batches=60))
_SAVING = Physics(episodes=Episodes(save_every=20, save_bytes=1_200_000_000))
_PAGEABLE = Physics(input=Input(pin_memory=False, batch_bytes=260 << 20))
_RETRIES = Physics(model=Model(mem_bytes=round(79.2 * GIB)), host=Host(retry_every=1, retry_ns=40 * MS))
_HOT = Physics(gpu=Gpu(ambient_c=46.0, c_per_w=0.098))

_JOB = Physics(input=Input(workers=6, decode_ns=200 * MS), ranks=Ranks(world=4))
_SLOW_LINK = Physics(ranks=Ranks(world=4, overlap=False, link_bytes_s=4e9))
_SLOW_LINK_OVERLAPPED = Physics(ranks=Ranks(world=2, link_bytes_s=0.8e9))

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="input-workers",
            story="4 loader workers decode for a GPU that could take twice as much; most of 12 cores are idle",
            cure="num_workers 4 -> 10",
            planted=_FEW_WORKERS,
            fixed=_change(_FEW_WORKERS, input={"workers": 10}),
        ),
        Scenario(
            name="input-cpu",
            story="8 workers decode full-size images on a machine of 8 cores: no core is left",
            cure="images stored at training size: a third of the decoding",
            planted=_HEAVY_DECODE,
            fixed=_change(_HEAVY_DECODE, input={"decode_ns": 400 * MS}),
        ),
        Scenario(
            name="host-work",
            story="60 ms of Python metrics after every step; the GPU is done long before",
            cure="metrics once every 50 steps: in between, next to nothing",
            planted=_SLOW_HOST,
            fixed=_change(_SLOW_HOST, host={"work_ns": 1_200 * US}),
        ),
        Scenario(
            name="launch-bound",
            story="9,400 kernels of 3 us a step at a batch of 8: Python can't launch them as fast as the GPU runs them",
            cure="captured in a CUDA graph (torch.compile mode=reduce-overhead), batch 8 -> 64",
            planted=_TINY_KERNELS,
            fixed=_change(
                _TINY_KERNELS,
                input={"batch": 64, "batch_bytes": 38 << 20, "decode_ns": 330 * MS, "workers": 8},
                model={"kernel_ns": 7 * US, "launch_ns": 400},
            ),
        ),
        Scenario(
            name="sync",
            story="1,536 values read with .item() every step, one for each sample and metric",
            cure="summed on the device, read once every 50 steps",
            planted=_READS,
            fixed=_change(_READS, host={"reads": 0}),
        ),
        Scenario(
            name="small-model",
            story="an MLP of 1.2 M parameters on an 80 GB GPU: nothing is wrong, the GPU is larger than the work",
            cure="batch 64 -> 8192",
            planted=_SMALL,
            fixed=_LARGER_BATCH,
        ),
        Scenario(
            name="gpu-bound",
            story="a healthy run: the GPU is the limit",
            cure="mixed precision: 40 % less device time",
            planted=_HEALTHY,
            fixed=_change(_HEALTHY, model={"kernel_ns": 36 * US}),
        ),
        Scenario(
            name="cpu-fallback",
            story="a GPU is there, but the model was never moved to it",
            cure="model.to(device)",
            planted=_ON_CPU,
            fixed=_change(_ON_CPU, input={"workers": 10}, model={"on_device": True}),
        ),
        Scenario(
            name="evaluation",
            story="60 validation batches after every 20 training steps",
            cure="validation every 400 steps",
            planted=_VALIDATION,
            fixed=_change(_VALIDATION, episodes={"validate_every": 400}),
        ),
        Scenario(
            name="checkpoint",
            story="a checkpoint of 1.2 GB written every 20 steps while the GPU waits",
            cure="a checkpoint every 1,000 steps",
            planted=_SAVING,
            fixed=_change(_SAVING, episodes={"save_every": 1000}),
        ),
        Scenario(
            name="h2d-pageable",
            story="batches of 260 MB copied from pageable memory: the host waits for each copy, the GPU for the host",
            cure="pin_memory=True",
            planted=_PAGEABLE,
            fixed=_change(_PAGEABLE, input={"pin_memory": True}),
        ),
        Scenario(
            name="memory-pressure",
            story="79 of 80 GB in use: the allocator frees its cache and tries again at every step",
            cure="activation checkpointing: 20 GB less",
            planted=_RETRIES,
            fixed=_change(_RETRIES, model={"mem_bytes": 59 * GIB}, host={"retry_every": 0}),
        ),
        Scenario(
            name="throttled",
            story="a blocked fan: the GPU reaches its slowdown temperature and lowers its clock",
            cure="the fan cleaned",
            planted=_HOT,
            fixed=_change(_HOT, gpu={"ambient_c": 32.0, "c_per_w": 0.062}),
        ),
    )
}
"""Every scenario by its name; the first is the default."""

DEFAULT = next(iter(SCENARIOS))

JOBS: dict[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            name="straggler: input",
            story="4 ranks; the disk of rank 2's machine is old, so its batches take three times as long",
            cure="the shard on a disk as fast as the others'",
            planted=_change(_JOB, ranks={"late": 2, "late_input": 5.0}),
            fixed=_JOB,
        ),
        Scenario(
            name="straggler: compute",
            story="4 ranks; the GPU of rank 1 computes at two thirds of the others' pace",
            cure="that node drained",
            planted=_change(_JOB, ranks={"late": 1, "late_compute": 1.5}),
            fixed=_JOB,
        ),
        Scenario(
            name="straggler: link",
            story="4 ranks; rank 3's GPU sits in a slot of one lane",
            cure="the card in a slot of sixteen",
            planted=_change(_JOB, ranks={"late": 3, "late_link": 30.0}),
            fixed=_JOB,
        ),
        Scenario(
            name="straggler: logging",
            story="4 ranks; rank 0 alone computes 120 ms of metrics after every step",
            cure="metrics every 50 steps",
            planted=_change(_JOB, ranks={"extra_ns": 120 * MS}),
            fixed=_change(_JOB, ranks={"extra_ns": 120 * MS, "extra_every": 50}),
        ),
        Scenario(
            name="straggler: saving",
            story="4 ranks; rank 0 writes 1.2 GB every 20 steps while the others wait in their next exchange",
            cure="every 1,000 steps",
            planted=_change(_JOB, episodes={"save_every": 20, "save_bytes": 1_200_000_000, "save_rank": 0}),
            fixed=_change(_JOB, episodes={"save_every": 1000, "save_bytes": 1_200_000_000, "save_rank": 0}),
        ),
        Scenario(
            name="comm-bound: after backward",
            story="4 ranks that sum 180 MB of gradients by a call of their own over 4 GB/s",
            cure="NVLink: 50 GB/s",
            planted=_SLOW_LINK,
            fixed=_change(_SLOW_LINK, ranks={"link_bytes_s": 50e9}),
        ),
        Scenario(
            name="comm-bound: inside backward",
            story="2 nodes of DistributedDataParallel over 0.8 GB/s: the sums outlast backward",
            cure="InfiniBand: 20 GB/s",
            planted=_SLOW_LINK_OVERLAPPED,
            fixed=_change(_SLOW_LINK_OVERLAPPED, ranks={"link_bytes_s": 20e9}),
        ),
    )
}
"""Jobs of several ranks, as traces alone: the cause that each is named after comes before the colon."""
