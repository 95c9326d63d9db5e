"""The ranks of a simulated job, each a rig of its own; a job of one is the rig alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from gputop.simulation.activity import Activity
from gputop.simulation.clock import Clock
from gputop.simulation.exchange import Exchange
from gputop.simulation.loop import Tap, train
from gputop.simulation.physics import Physics
from gputop.simulation.rig import Rig

APART = 7919
"""Between the seeds of two ranks, whose jitter is their own."""


def rigs(physics: Physics, clocks: Sequence[Clock], seed: int = 0, activity: type[Activity] = Activity) -> list[Rig]:
    """A rig for each rank, on the clock of its own. `activity`: how what the host does is kept."""
    if physics.ranks.world == 1:
        return [Rig(clocks[0], physics, seed, activity=activity)]
    exchange = Exchange(physics)
    return [
        Rig(clock, of_rank(physics, rank), seed + APART * rank, rank=rank, exchange=exchange, activity=activity)
        for rank, clock in enumerate(clocks)
    ]


def train_all(job: Sequence[Rig], taps: Sequence[Tap]) -> Iterator[int]:
    """Train every rank without end; yields the number of steps done after each of rank 0, with the others that far."""
    trainings = [train(rig, tap) for rig, tap in zip(job, taps, strict=True)]
    exchange = job[0].exchange
    if exchange is not None:
        exchange.join(trainings)
    return trainings[0]


def of_rank(physics: Physics, rank: int) -> Physics:
    """The physics of one rank of a job."""
    plan, source, model, gpu = physics.ranks, physics.input, physics.model, physics.gpu
    if rank != plan.late:
        return physics
    return replace(
        physics,
        input=replace(source, decode_ns=round(source.decode_ns * plan.late_input)),
        model=replace(
            model,
            kernel_ns=round(model.kernel_ns * plan.late_compute),
            optimizer_kernel_ns=round(model.optimizer_kernel_ns * plan.late_compute),
        ),
        gpu=replace(
            gpu,
            pinned_bytes_s=gpu.pinned_bytes_s / plan.late_link,
            pageable_bytes_s=gpu.pageable_bytes_s / plan.late_link,
        ),
    )
