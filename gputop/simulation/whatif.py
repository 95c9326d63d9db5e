"""The simulator's truth: what holds a run back is what speeds it up most when it is taken away.

The device's own work is never taken away: it is what the training is for, and the floor that every gain ends at. A run
that nothing else speeds up is bound by its device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from msgspec.structs import replace

from gputop.simulation.activity import Unseen
from gputop.simulation.clock import VirtualClock
from gputop.simulation.job import rigs, train_all
from gputop.simulation.loop import train
from gputop.simulation.physics import Physics, Ranks
from gputop.simulation.rig import Rig

LEAST_GAIN = 1.1
"""A gain below this is no bottleneck: a tenth of the step is what a verdict must explain at least."""

TIE = 0.97
"""Of remedies whose speeds are this close, the first in order, which changes least, is the one needed."""

SMALL_MEMORY, SMALL_POWER = 0.15, 0.35
"""Shares of the device's memory and power limit under which a launch-bound run is a small model on a large device."""


PLENTY = 64
"""Loader workers of which there are always enough."""


def _without(part: str, **fields: Any) -> Callable[[Physics], Physics]:
    return lambda physics: replace(physics, **{part: replace(getattr(physics, part), **fields)})


def _more_cores(physics: Physics) -> Physics:
    workers = max(PLENTY, physics.input.workers)
    return replace(physics, machine=replace(physics.machine, cores=1024), input=replace(physics.input, workers=workers))


def _alike(physics: Physics) -> Physics:
    """No rank is later than another, nor has work that only it does."""
    usual, ranks, episodes = Ranks(), physics.ranks, physics.episodes
    if episodes.save_rank is not None and ranks.world > 1:
        physics = replace(physics, episodes=replace(episodes, save_every=0))
    return replace(
        physics,
        ranks=replace(
            ranks, late_input=usual.late_input, late_compute=usual.late_compute, late_link=usual.late_link, extra_ns=0
        ),
    )


REMEDIES: dict[str, Callable[[Physics], Physics]] = {
    "cpu-fallback": lambda physics: replace(
        physics, model=replace(physics.model, on_device=physics.model.on_device or physics.machine.gpus > 0)
    ),
    "straggler": _alike,
    "input-oversubscribed": _without("input", worker_threads=1),
    "input-restart": _without("input", restart_ns=0),
    "input-slow-sample": _without("input", in_order=False),
    "host-contention": _without("machine", others=0),
    "input-workers": _without("input", workers=PLENTY),
    "input-disk": _without("input", disk_bytes_s=0.0),
    "h2d-pageable": _without("input", pin_memory=True),
    "memory-pressure": _without("host", retry_every=0),
    "throttled": _without("gpu", c_per_w=0.0),
    "gpu-contention": _without("gpu", neighbour_share=0.0),
    "evaluation": _without("episodes", validate_every=0),
    "checkpoint": _without("episodes", save_every=0),
    "sync": _without("host", reads=0),
    "host-work": lambda physics: _without("host", work_ns=0)(_without("ranks", extra_ns=0)(physics)),
    "optimizer": _without("model", optimizer_fused=True),
    "launch-bound": _without("model", launch_ns=0),
    "input-transfer": _without("input", handover_ns=0),
    "comm-bound": _without("ranks", link_bytes_s=1e15, latency_ns=0),
    "input-cpu": _more_cores,
    "h2d-link": _without("gpu", pinned_bytes_s=1e15),
}
"""Each resource by the cause that its shortage is: the run with plenty of it, in the order of how little it changes."""


class Unwatched:
    """A tap that reports to nobody."""

    def steps(self, loader: Any) -> Iterator[Any]:
        yield from loader

    def phase(self, _name: str) -> nullcontext[None]:
        return nullcontext()

    def reads(self, _count: int) -> nullcontext[None]:
        return nullcontext()

    def copied(self, _nbytes: int, _pageable: int) -> None:
        pass


def speed(physics: Physics, seconds: float = 20.0, seed: int = 0, steps: int | None = None) -> float:
    """Steps a second of a run, its first fifth left out: of so many seconds, or of fewer where `steps` are done.

    Where something comes every so many steps, of as many whole periods as there are.
    """
    world = physics.ranks.world
    clocks = [VirtualClock() for _ in range(world)]
    clock = clocks[0]
    done: list[tuple[int, int]] = []
    for step in train_all(rigs(physics, clocks, seed, Unseen), [Unwatched()] * world):
        done.append((clock.now(), step))
        if clock.now() >= seconds * 1e9 or (steps is not None and step >= steps):
            break
    period, start = _period(physics), len(done) // 5
    span = len(done) - 1 - start
    (first_t, first), (last_t, last) = done[start], done[start + (span - span % period if period <= span else span)]
    return (last - first) / (last_t - first_t) * 1e9


def _period(physics: Physics) -> int:
    """Steps after which all that comes every so many steps begins anew."""
    host, episodes, ranks = physics.host, physics.episodes, physics.ranks
    every = [host.work_every, host.retry_every, episodes.validate_every, episodes.save_every]
    every += [ranks.extra_every] if ranks.extra_ns else []
    every += [physics.input.batches] if physics.input.restart_ns else []
    return math.lcm(*(steps for steps in every if steps))


def gains(physics: Physics, seconds: float = 20.0, seed: int = 0, steps: int | None = None) -> dict[str, float]:
    """How many times as fast the run is with plenty of each resource; 1 where it has plenty already."""
    now = speed(physics, seconds, seed, steps)
    with_plenty = {cause: remedy(physics) for cause, remedy in REMEDIES.items()}
    return {
        cause: speed(remedied, seconds, seed, steps) / now if remedied != physics else 1.0
        for cause, remedied in with_plenty.items()
    }


def truth(physics: Physics, seconds: float = 20.0, seed: int = 0) -> str:
    """The cause that holds the run back."""
    return named(physics, gains(physics, seconds, seed), seconds, seed)


def named(physics: Physics, found: dict[str, float], seconds: float = 20.0, seed: int = 0) -> str:
    """The cause by what each remedy gains: the one that gains most, where that is enough; else the device itself."""
    best = max(found.values())
    if best < LEAST_GAIN:
        return "gpu-bound" if physics.model.on_device else "cpu-bound"
    cause = next(cause for cause, gain in found.items() if gain >= best * TIE)
    if cause == "launch-bound" and _small(physics, seconds, seed):
        return "small-model"
    return cause


def _small(physics: Physics, seconds: float, seed: int) -> bool:
    clock = VirtualClock()
    rig = Rig(clock, physics, seed)
    for _ in train(rig, Unwatched()):
        if clock.now() >= seconds * 2e8:
            break
    gpu, now = physics.gpu, clock.now()
    power = gpu.power_idle_w + (gpu.power_limit_w - gpu.power_idle_w) * rig.device.power.mean(now - 1_000_000_000, now)
    memory = physics.model.mem_bytes / gpu.mem_total_bytes
    return memory < SMALL_MEMORY and power / gpu.power_limit_w < SMALL_POWER
