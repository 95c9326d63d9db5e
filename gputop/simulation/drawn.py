"""Training loops drawn at random: a healthy one, and what may be wrong with it, each in a random measure.

Nothing here says what holds a loop back: `whatif.gains` does. A draw may plant two things, or one too small to matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from gputop.simulation.physics import GIB, MS, US, Gpu, Host, Input, Machine, Model, Physics, Ranks

SECOND = 0.25
"""Share of the loops in which a second thing is wrong."""

TOGETHER = 0.1
"""Share of the loops that are one rank of a job whose exchange costs next to nothing."""

WORLDS = (2, 2, 4, 4, 8)

Plant = Callable[[Random, Physics], Physics]


def draw(seed: int) -> Physics:
    """The loop of a seed: the same for the same seed."""
    random = Random(seed)
    physics = healthy(random)
    names = list(PLANTS)
    planted = random.choice(names)
    physics = PLANTS[planted](random, physics)
    if random.random() < SECOND:
        other = random.choice(names)
        if other != planted:
            physics = PLANTS[other](random, physics)
    return physics if physics.model.on_device else _change(physics, host={"retry_every": 0})


def draw_healthy(seed: int, jitter: float = 0.3) -> Physics:
    """A loop with nothing wrong and host times and kernels that spread by up to `jitter`."""
    random = Random(seed)
    physics = healthy(random)
    return replace(physics, jitter=random.uniform(0.02, jitter))


def healthy(random: Random) -> Physics:
    """A loop on a GPU that its device limits: everything else keeps up with room to spare."""
    device_ns = _between(random, 25 * MS, 240 * MS)
    launch_ns = _between(random, 4 * US, 10 * US)
    launching_ns = device_ns * random.uniform(0.1, 0.6)
    kernels = max(40, round(launching_ns / launch_ns))
    kernel_ns = device_ns / kernels
    cores = random.choice((6, 8, 12, 16, 24, 32, 64))
    workers = max(2, min(16, cores // 2))
    batch_bytes = _between(random, 1 << 20, 64 << 20)
    memory = random.uniform(0.2, 0.85)
    forward = 0.93 / (1 + random.uniform(1.6, 2.9))
    physics = Physics(
        machine=Machine(cores=cores),
        gpu=Gpu(),
        input=Input(
            workers=workers, prefetch=random.choice((2, 2, 4)), batch=random.choice((16, 32, 64, 128, 256)),
            batches=random.choice((400, 1000, 5000)), batch_bytes=round(batch_bytes),
            read_bytes=round(batch_bytes / random.uniform(2, 8)),
            decode_ns=round(device_ns * workers * random.uniform(0.2, 0.6)), decode_jitter=random.uniform(0.03, 0.25),
            handover_ns=round(_between(random, 100 * US, 900 * US)),
        ),
        model=Model(
            params=round(_between(random, 12e6, 400e6)), forward=round(kernels * forward),
            backward=round(kernels * (0.93 - forward)),
            optimizer=max(1, round(kernels * 0.07)), kernel_ns=round(kernel_ns), optimizer_kernel_ns=round(kernel_ns),
            launch_ns=round(launch_ns), intensity=random.uniform(0.5, 0.95), mem_bytes=round(80 * GIB * memory),
            param_tensors=random.choice((60, 160, 300)),
        ),
        host=Host(work_ns=round(_between(random, 50 * US, 600 * US))),
        jitter=random.uniform(0.01, 0.12),
    )  # fmt: skip
    if random.random() < TOGETHER:
        return replace(physics, ranks=_job(random, device_ns, physics.model.params))
    return physics


def _job(random: Random, device_ns: float, params: float) -> Ranks:
    """A job whose exchange takes at most a twentieth of a step, and mostly runs beside backward."""
    return Ranks(
        world=random.choice(WORLDS),
        overlap=random.random() < 0.6,
        buckets=random.choice((4, 8, 16)),
        link_bytes_s=8 * params / device_ns * 1e9 / random.uniform(0.005, 0.05),
        latency_ns=round(_between(random, 15 * US, 60 * US)),
    )


def _between(random: Random, low: float, high: float) -> float:
    """A figure whose logarithm is evenly spread."""
    return math.exp(random.uniform(math.log(low), math.log(high)))


def _change(physics: Physics, **parts: dict[str, Any]) -> Physics:
    changed = {name: replace(getattr(physics, name), **fields) for name, fields in parts.items()}
    return replace(physics, **changed)


def _step_ns(physics: Physics) -> float:
    """Device time of a step."""
    model = physics.model
    return (model.forward + model.backward) * model.kernel_ns + model.optimizer * model.optimizer_kernel_ns


def _nothing(_random: Random, physics: Physics) -> Physics:
    return physics


def _few_workers(random: Random, physics: Physics) -> Physics:
    workers = random.choice((0, 1, 1, 2, 3, 4))
    if physics.machine.cores < 2 * workers + 2:
        workers = 1
    decode_ns = round(max(1, workers) * _step_ns(physics) * random.uniform(0.3 if workers == 0 else 0.9, 4.0))
    return _change(physics, input={"workers": workers, "decode_ns": decode_ns})


def _heavy_decode(random: Random, physics: Physics) -> Physics:
    cores = random.choice((2, 4, 6, 8, 12))
    workers = max(1, cores + random.choice((-1, 0, 0, 1)))
    decode_ns = round(cores * _step_ns(physics) * random.uniform(0.95, 3.5))
    return _change(physics, machine={"cores": cores}, input={"workers": workers, "decode_ns": decode_ns})


def _slow_disk(random: Random, physics: Physics) -> Physics:
    ns = _step_ns(physics) * random.uniform(0.7, 4.0)
    return _change(physics, input={"disk_bytes_s": physics.input.read_bytes / ns * 1e9})


def _slow_samples(random: Random, physics: Physics) -> Physics:
    workers = max(4, physics.input.workers)
    decode_ns = round(_step_ns(physics) * workers * random.uniform(0.15, 0.4))
    return _change(
        physics,
        machine={"cores": max(physics.machine.cores, 2 * workers)},
        input={
            "workers": workers, "prefetch": 2, "decode_ns": decode_ns,
            "slow_share": random.uniform(0.02, 0.06), "slow_factor": random.uniform(8, 30),
        },
    )  # fmt: skip


def _thread_pools(random: Random, physics: Physics) -> Physics:
    cores = random.choice((4, 8, 12, 16))
    workers = max(2, cores // 2)
    decode_ns = round(_step_ns(physics) * workers * random.uniform(0.5, 0.95))
    return _change(
        physics,
        machine={"cores": cores},
        input={"workers": workers, "worker_threads": random.randrange(3, 9), "decode_ns": decode_ns},
    )


def _slow_handover(random: Random, physics: Physics) -> Physics:
    return _change(physics, input={"handover_ns": round(_step_ns(physics) * random.uniform(0.05, 1.5))})


def _restarts(random: Random, physics: Physics) -> Physics:
    batches = random.randrange(15, 50)
    restart_ns = round(_step_ns(physics) * batches * random.uniform(0.05, 0.8))
    return _change(physics, input={"batches": batches, "restart_ns": restart_ns})


def _unpinned(random: Random, physics: Physics) -> Physics:
    nbytes = round(_step_ns(physics) / 1e9 * random.uniform(0.05, 1.2) * physics.gpu.pageable_bytes_s)
    return _change(physics, input={"pin_memory": False, "batch_bytes": nbytes})


def _slow_link(random: Random, physics: Physics) -> Physics:
    rate = physics.gpu.pinned_bytes_s
    return _change(physics, input={"batch_bytes": round(_step_ns(physics) / 1e9 * random.uniform(0.05, 1.0) * rate)})


def _tiny_kernels(random: Random, physics: Physics) -> Physics:
    model = physics.model
    factor = random.uniform(1.2, 4.0) * model.kernel_ns / model.launch_ns
    return _change(
        physics,
        model={
            "forward": round(model.forward * factor), "backward": round(model.backward * factor),
            "optimizer": max(1, round(model.optimizer * factor)),
            "kernel_ns": max(1, round(model.kernel_ns / factor)),
            "optimizer_kernel_ns": max(1, round(model.optimizer_kernel_ns / factor)),
        },
    )  # fmt: skip


def _reads(random: Random, physics: Physics) -> Physics:
    host, model = physics.host, physics.model
    each = model.launch_ns + host.read_kernel_ns + host.read_latency_ns
    return _change(physics, host={"reads": max(1, round(_step_ns(physics) * random.uniform(0.005, 1.0) / each))})


def _work(random: Random, physics: Physics) -> Physics:
    every = random.choice((1, 1, 1, 10, 25))
    return _change(
        physics,
        host={"work_ns": round(every * _step_ns(physics) * random.uniform(0.2, 2.0)), "work_every": every},
    )


def _unfused(random: Random, physics: Physics) -> Physics:
    ns = _step_ns(physics) * random.uniform(0.1, 1.5)
    tensors = max(100, round(ns / physics.model.launch_ns / 6))
    return _change(physics, model={"optimizer_fused": False, "param_tensors": tensors})


def _neighbour_on_device(random: Random, physics: Physics) -> Physics:
    return _change(physics, gpu={"neighbour_share": random.uniform(0.05, 0.6)})


def _neighbours(random: Random, physics: Physics) -> Physics:
    cores = random.choice((4, 8, 12))
    if physics.input.workers > cores // 2:
        fewer = _change(physics, input={"workers": cores // 2})
        made = physics.input.decode_ns * fewer.input.workers / physics.input.workers
        physics = _change(fewer, input={"decode_ns": round(made)})
    return _change(physics, machine={"cores": cores, "others": round(cores * random.uniform(0.3, 4.0))})


def _retries(random: Random, physics: Physics) -> Physics:
    return _change(
        physics,
        model={"mem_bytes": round(80 * GIB * random.uniform(0.96, 0.99))},
        host={"retry_every": 1, "retry_ns": round(_step_ns(physics) * random.uniform(0.1, 1.0))},
    )


def _hot(random: Random, physics: Physics) -> Physics:
    return _change(
        physics,
        gpu={"ambient_c": random.uniform(40, 60), "c_per_w": random.uniform(0.07, 0.14)},
        model={"intensity": random.uniform(0.75, 0.95)},
    )


def _validation(random: Random, physics: Physics) -> Physics:
    every = random.choice((10, 20, 40))
    batches = max(1, round(every * random.uniform(0.1, 3.0)))
    return _change(physics, episodes={"validate_every": every, "validate_batches": batches})


def _saving(random: Random, physics: Physics) -> Physics:
    every = random.choice((10, 20, 40))
    ns = every * _step_ns(physics) * random.uniform(0.05, 1.0)
    return _change(physics, episodes={"save_every": every, "save_bytes": round(ns / 1e9 * 1.2e9)})


def _small(random: Random, physics: Physics) -> Physics:
    tiny = _change(
        physics,
        input={
            "batch_bytes": 1 << random.randrange(16, 20),
            "read_bytes": 1 << 16,
            "workers": 4,
            "handover_ns": 150 * US,
            "decode_ns": random.randrange(2 * MS, 8 * MS),
        },
        host={"work_ns": random.randrange(50 * US, 150 * US)},
    )
    return replace(
        tiny,
        model=Model(
            name="MLP", params=random.randrange(20_000, 1_800_000), forward=random.randrange(60, 300),
            backward=random.randrange(100, 500), optimizer=40, kernel_ns=random.randrange(1_500, 4_500),
            optimizer_kernel_ns=2_500, launch_ns=random.randrange(6_000, 10_000), intensity=0.15, mem_bytes=1 * GIB,
            param_tensors=8,
        ),
    )  # fmt: skip


def _left_on_cpu(_random: Random, physics: Physics) -> Physics:
    model = physics.model
    factor = 0.2 * MS * 200 / _step_ns(physics)
    alone = replace(physics, ranks=Ranks())
    return _change(alone, model={"on_device": False, "kernel_ns": max(1, round(model.kernel_ns * factor))})


def in_job(random: Random, physics: Physics, **fields: Any) -> Physics:
    """The loop as one rank of a job, whether it was one or not; on a CPU it stays alone."""
    if not physics.model.on_device:
        return physics
    ranks = physics.ranks if physics.ranks.world > 1 else _job(random, _step_ns(physics), physics.model.params)
    return replace(physics, ranks=replace(ranks, late=random.randrange(ranks.world), **fields))


def _slow_exchange(random: Random, physics: Physics) -> Physics:
    """Gradients that take as long as this much of a step to go round."""
    physics = in_job(random, physics)
    world = physics.ranks.world
    sent = 2 * (world - 1) / world * 4 * physics.model.params
    ns = _step_ns(physics) * random.uniform(0.1, 2.0)
    return _change(physics, ranks={"link_bytes_s": sent / ns * 1e9})


def _late_input(random: Random, physics: Physics) -> Physics:
    plan = physics.input
    factor = _step_ns(physics) * plan.workers / plan.decode_ns
    return in_job(random, physics, late_input=factor * random.uniform(0.9, 3.0))


def _late_compute(random: Random, physics: Physics) -> Physics:
    return in_job(random, physics, late_compute=random.uniform(1.05, 2.5))


def _late_link(random: Random, physics: Physics) -> Physics:
    copied_ns = physics.input.batch_bytes / physics.gpu.pinned_bytes_s * 1e9
    return in_job(random, physics, late_link=max(1.0, _step_ns(physics) * random.uniform(0.05, 1.5) / copied_ns))


def _rank_alone(random: Random, physics: Physics) -> Physics:
    every = random.choice((1, 1, 10, 25))
    ns = round(every * _step_ns(physics) * random.uniform(0.2, 2.0))
    return _change(in_job(random, physics, extra_ns=ns, extra_every=every), ranks={"late": 0})


def _one_saves(random: Random, physics: Physics) -> Physics:
    alone = _change(in_job(random, _saving(random, physics)), ranks={"late": 0})
    return _change(alone, episodes={"save_rank": 0}) if alone.ranks.world > 1 else physics


def _no_gpu(random: Random, physics: Physics) -> Physics:
    alone = replace(_change(_left_on_cpu(random, physics), machine={"gpus": 0}), ranks=Ranks())
    return _few_workers(random, alone) if random.random() < 0.3 else alone


PLANTS: dict[str, Plant] = {
    "nothing": _nothing,
    "few workers": _few_workers,
    "heavy decoding": _heavy_decode,
    "slow disk": _slow_disk,
    "slow samples": _slow_samples,
    "thread pools": _thread_pools,
    "slow handover": _slow_handover,
    "restarts": _restarts,
    "unpinned": _unpinned,
    "large batches": _slow_link,
    "tiny kernels": _tiny_kernels,
    "reads": _reads,
    "work": _work,
    "unfused": _unfused,
    "neighbour on the device": _neighbour_on_device,
    "neighbours": _neighbours,
    "retries": _retries,
    "hot": _hot,
    "validation": _validation,
    "saving": _saving,
    "slow exchange": _slow_exchange,
    "late input": _late_input,
    "late compute": _late_compute,
    "late link": _late_link,
    "work of one rank": _rank_alone,
    "saving by one rank": _one_saves,
    "small": _small,
    "left on the cpu": _left_on_cpu,
    "no gpu": _no_gpu,
}
"""What may be wrong, each drawn as often."""
