"""A scenario as records, faster than real time: the live demo's loop and physics under a virtual clock.

from gputop.simulation.trace import records
for record in records("input-workers", seconds=60):
    ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gputop import records as rec
from gputop.simulation import readings
from gputop.simulation.clock import VirtualClock
from gputop.simulation.device import SimulatedClock
from gputop.simulation.identity import identity, model
from gputop.simulation.loop import train
from gputop.simulation.physics import Physics
from gputop.simulation.recorder import TRAIN, Recorder
from gputop.simulation.rig import Rig
from gputop.simulation.scenarios import SCENARIOS
from gputop.simulation.state import State, observe

START_NS = 1_760_000_000_000_000_000
"""When traces begin unless told otherwise (epoch ns)."""

PID, HOST = 4242, "simulated"


def records(
    scenario: str,
    *,
    fixed: bool = False,
    seconds: float = 60.0,
    seed: int = 0,
    speed: float = 1.0,
    start_ns: int = START_NS,
) -> Iterator[rec.Record]:
    """The records of one simulated run, as live sources would give them: steps, and each second the samplers' records.

    The same arguments give the same records. Raises KeyError for an unknown scenario, ValueError for a bad speed.
    """
    physics = SCENARIOS[scenario].physics(fixed=fixed, speed=speed)
    return trace(physics, name=scenario, seconds=seconds, seed=seed, start_ns=start_ns)


def trace(
    physics: Physics, *, name: str = "custom", seconds: float = 60.0, seed: int = 0, start_ns: int = START_NS
) -> Iterator[rec.Record]:
    """`records`, of any physics."""
    out: list[rec.Record] = []
    tap: Recorder
    seen: State

    def sample(t: int) -> None:
        nonlocal seen
        state = observe(rig, offset_ns=start_ns, pid=PID, host=HOST, run_id=run_id)
        out.extend(_sampled(state, seen, physics.machine.gpus))
        out.append(rec.Alive(t=start_ns + t, run_id=run_id, steps=tap.steps_done, open_phase=tap.open_phase()))
        seen = state

    clock = VirtualClock(0, 1_000_000_000, sample)
    rig = Rig(clock, physics, seed)
    run_id = f"sim-{name}-{seed}"
    tap = Recorder(
        rig,
        SimulatedClock(rig.device, identity(physics, name), used=physics.model.on_device),
        out,
        offset_ns=start_ns,
        run_id=run_id,
    )
    seen = observe(rig, offset_ns=start_ns, pid=PID, host=HOST, run_id=run_id)
    yield rec.Run(
        t=start_ns, run_id=run_id, pid=PID, host=HOST, schema=rec.SCHEMA, offset_ns=start_ns, start_ns=start_ns,
        rank=0, local_rank=0, world_size=1, framework="other", **identity(physics, name),
    )  # fmt: skip
    yield _loader(rig, run_id, start_ns)
    yield model(physics, run_id, start_ns)
    for _ in train(rig, tap):
        yield from out
        out.clear()
        if clock.now() >= seconds * 1e9:
            return


def _sampled(state: State, since: State, gpus: int) -> Iterable[rec.Record]:
    if gpus:
        yield readings.gpu(state)
        if (burst := readings.burst(state, since)) is not None:
            yield burst
    else:
        yield rec.Sampler(t=state.t, host=state.host, backend="nvml", state="absent", devices=0)
    yield readings.host(state, since)
    yield readings.process(state, since)
    yield from readings.neighbours(state, since)


def _loader(rig: Rig, run_id: str, t: int) -> rec.Loader:
    loader = rig.loader
    return rec.Loader(
        t=t, run_id=run_id, loader_id=TRAIN, num_workers=loader.num_workers, prefetch_factor=loader.prefetch_factor,
        pin_memory=loader.pin_memory, persistent_workers=loader.persistent_workers, in_order=loader.in_order,
        batch_size=loader.batch_size, drop_last=loader.drop_last, dataset=loader.dataset, batches=len(loader),
        worker_pids=[PID + 1 + i for i in range(loader.num_workers)],
    )  # fmt: skip
