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
from gputop.simulation.job import rigs, train_all
from gputop.simulation.physics import Physics
from gputop.simulation.recorder import TRAIN, Recorder
from gputop.simulation.rig import Rig
from gputop.simulation.scenarios import JOBS, SCENARIOS
from gputop.simulation.state import State, observe

START_NS = 1_760_000_000_000_000_000
"""When traces begin unless told otherwise (epoch ns)."""

SECOND_NS = 1_000_000_000
"""How often samplers and the publisher's sign of life are recorded."""

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
    physics = (SCENARIOS | JOBS)[scenario].physics(fixed=fixed, speed=speed)
    return trace(physics, name=scenario, seconds=seconds, seed=seed, start_ns=start_ns)


def trace(
    physics: Physics, *, name: str = "custom", seconds: float = 60.0, seed: int = 0, start_ns: int = START_NS
) -> Iterator[rec.Record]:
    """`records`, of any physics. Of a job all ranks are told, each on a machine of its own."""
    clocks = [VirtualClock(0, SECOND_NS) for _ in range(physics.ranks.world)]
    watched = [Watched(rig, name, seed, start_ns) for rig in rigs(physics, clocks, seed)]
    for clock, one in zip(clocks, watched, strict=True):
        clock.on_tick = one.sample
        yield from one.begin()
    for _ in train_all([one.rig for one in watched], [one.tap for one in watched]):
        found = [record for one in watched for record in one.out]
        yield from found if len(watched) == 1 else sorted(found, key=rec.end_of)
        for one in watched:
            one.out.clear()
        if clocks[0].now() >= seconds * 1e9:
            return


class Watched:
    """One rank and what is recorded of it: steps through its tap, and each second what samplers see."""

    def __init__(self, rig: Rig, name: str, seed: int, start_ns: int) -> None:
        world = rig.physics.ranks.world
        self.rig = rig
        self.out: list[rec.Record] = []
        self._name, self._start_ns = name, start_ns
        self._run_id = f"sim-{name}-{seed}" if not rig.rank else f"sim-{name}-{seed}-r{rig.rank}"
        self._pid = PID + 100 * rig.rank
        self._host = HOST if world == 1 else f"{HOST}{rig.rank}"
        self._identity = identity(rig.physics, name, rig.rank)
        self.tap = Recorder(
            rig,
            SimulatedClock(rig.device, self._identity, used=rig.physics.model.on_device),
            self.out,
            offset_ns=start_ns,
            run_id=self._run_id,
        )
        self._seen = self._observe()

    def begin(self) -> Iterator[rec.Record]:
        """What is known of the run before its first step."""
        rank, t = self.rig.rank, self._start_ns
        yield rec.Run(
            t=t, run_id=self._run_id, pid=self._pid, host=self._host, schema=rec.SCHEMA, offset_ns=t, start_ns=t,
            rank=rank, local_rank=0, world_size=self.rig.physics.ranks.world, framework="other", **self._identity,
        )  # fmt: skip
        yield _loader(self.rig, self._run_id, t, self._pid)
        yield model(self.rig.physics, self._run_id, t)

    def sample(self, t: int) -> None:
        """A second has passed: what samplers and the publisher say then."""
        state = self._observe()
        self.out.extend(_sampled(state, self._seen, self.rig.physics.machine.gpus))
        self.out.append(
            rec.Alive(
                t=self._start_ns + t, run_id=self._run_id, steps=self.tap.steps_done, open_phase=self.tap.open_phase()
            )
        )
        self._seen = state

    def _observe(self) -> State:
        return observe(self.rig, offset_ns=self._start_ns, pid=self._pid, host=self._host, run_id=self._run_id)


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


def _loader(rig: Rig, run_id: str, t: int, pid: int) -> rec.Loader:
    loader = rig.loader
    return rec.Loader(
        t=t, run_id=run_id, loader_id=TRAIN, num_workers=loader.num_workers, prefetch_factor=loader.prefetch_factor,
        pin_memory=loader.pin_memory, persistent_workers=loader.persistent_workers, in_order=loader.in_order,
        batch_size=loader.batch_size, drop_last=loader.drop_last, dataset=loader.dataset, batches=len(loader),
        worker_pids=[pid + 1 + i for i in range(loader.num_workers)],
    )  # fmt: skip
