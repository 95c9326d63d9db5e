"""The simulator's truth: what holds a run back is what speeds it up most when it is taken away.

The device's own work is never taken away: it is what the training is for, and the floor that every gain ends at. A run
that nothing else speeds up is bound by its device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from msgspec.structs import replace

from gputop.simulation.clock import VirtualClock
from gputop.simulation.loop import train
from gputop.simulation.physics import Physics
from gputop.simulation.rig import Rig

LEAST_GAIN = 1.1
"""A gain below this is no bottleneck: a tenth of the step is what a verdict must explain at least."""

TIE = 0.97
"""Of remedies whose speeds are this close, the first in order, which changes least, is the one needed."""

SMALL_MEMORY, SMALL_POWER = 0.15, 0.35
"""Shares of the device's memory and power limit under which a launch-bound run is a small model on a large device."""


def _without(part: str, **fields: Any) -> Callable[[Physics], Physics]:
    return lambda physics: replace(physics, **{part: replace(getattr(physics, part), **fields)})


REMEDIES: dict[str, Callable[[Physics], Physics]] = {
    "cpu-fallback": _without("model", on_device=True),
    "input-workers": _without("input", workers=64),
    "h2d-pageable": _without("input", pin_memory=True),
    "memory-pressure": _without("host", retry_every=0),
    "throttled": _without("gpu", c_per_w=0.0),
    "evaluation": _without("episodes", validate_every=0),
    "checkpoint": _without("episodes", save_every=0),
    "sync": _without("host", reads=0),
    "host-work": _without("host", work_ns=0),
    "launch-bound": _without("model", launch_ns=0),
    "input-cpu": _without("input", decode_ns=0),
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


def speed(physics: Physics, seconds: float = 20.0, seed: int = 0) -> float:
    """Steps a second of a run, its first fifth left out."""
    clock = VirtualClock()
    done: list[tuple[int, int]] = []
    for step in train(Rig(clock, physics, seed), Unwatched()):
        done.append((clock.now(), step))
        if clock.now() >= seconds * 1e9:
            break
    late = [(t, step) for t, step in done if t >= seconds * 2e8]
    (first_t, first), (last_t, last) = late[0], late[-1]
    return (last - first) / (last_t - first_t) * 1e9


def gains(physics: Physics, seconds: float = 20.0, seed: int = 0) -> dict[str, float]:
    """How many times as fast the run is with plenty of each resource."""
    now = speed(physics, seconds, seed)
    return {cause: speed(remedy(physics), seconds, seed) / now for cause, remedy in REMEDIES.items()}


def truth(physics: Physics, seconds: float = 20.0, seed: int = 0) -> str:
    """The cause that holds the run back."""
    found = gains(physics, seconds, seed)
    best = max(found.values())
    if best < LEAST_GAIN:
        return "gpu-bound"
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
