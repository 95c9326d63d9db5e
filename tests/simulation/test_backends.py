"""The samplers' backends on a simulated machine's state file."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gputop import records as rec
from gputop.samplers.protocol import GpuBackend, HostBackend, Targets
from gputop.simulation.backend import STALE_NS, START_NS, StateReader
from gputop.simulation.clock import VirtualClock
from gputop.simulation.gpu_backend import SimulatedGpu, open_backend
from gputop.simulation.host_backend import SimulatedHost
from gputop.simulation.host_backend import open_backend as open_host
from gputop.simulation.loop import train
from gputop.simulation.rig import Rig
from gputop.simulation.scenarios import SCENARIOS
from gputop.simulation.state import SAMPLE_NS, observe, read, write
from gputop.simulation.whatif import Unwatched

EPOCH = 1_700_000_000_000_000_000


class Machine:
    """A scenario under a virtual clock, whose state is written when asked for."""

    def __init__(self, path: Path, scenario: str = "input-workers") -> None:
        self.path = path
        self.clock = VirtualClock()
        self.rig = Rig(self.clock, SCENARIOS[scenario].planted)
        self._steps = train(self.rig, Unwatched())

    def run(self, seconds: float) -> None:
        end = self.clock.now() + seconds * 1e9
        while self.clock.now() < end:
            next(self._steps)
        write(observe(self.rig, pid=77, host="here"), self.path)

    def now(self) -> int:
        return EPOCH + self.clock.now()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine.state")


def test_the_device_is_sampled_as_a_driver_would(machine: Machine) -> None:
    backend: GpuBackend = SimulatedGpu(StateReader(str(machine.path), "simulated", machine.clock.now))
    backend.open()
    machine.run(5)
    gpu, burst = backend.sample(machine.now())
    assert isinstance(gpu, rec.Gpu)
    assert gpu.simulated
    assert "Simulated" in (gpu.name or "")
    assert gpu.t == machine.now()
    assert 20 < (gpu.util_pct or 0) < 70
    assert [process.pid for process in gpu.processes or []] == [77]
    assert isinstance(burst, rec.Burst)
    machine.run(1)
    later = backend.sample(machine.now())[1]
    assert isinstance(later, rec.Burst)
    assert later.t == burst.t + burst.dt_ns[-1] + SAMPLE_NS
    backend.close()


def test_nothing_new_gives_no_burst(machine: Machine) -> None:
    backend = SimulatedGpu(StateReader(str(machine.path), "simulated", machine.clock.now))
    machine.run(2)
    backend.sample(machine.now())
    assert [type(record) for record in backend.sample(machine.now())] == [rec.Gpu]


def test_rates_come_with_the_second_tick_and_the_run_id_with_the_targets(machine: Machine) -> None:
    backend: HostBackend = SimulatedHost(StateReader(str(machine.path), "simulated", machine.clock.now))
    backend.follow(Targets(pids={77: "the-run"}))
    machine.run(3)
    assert backend.sample(machine.now()) == []
    machine.run(3)
    host, process = backend.sample(machine.now())
    assert isinstance(host, rec.Host)
    assert isinstance(process, rec.Process)
    assert (process.pid, process.run_id) == (77, "the-run")
    assert len(process.workers or []) == 4
    assert host.cores == 12
    assert 30 < (host.cpu_pct or 0) < 45


def test_another_process_in_the_file_starts_the_rates_anew(machine: Machine) -> None:
    backend = SimulatedHost(StateReader(str(machine.path), "simulated", machine.clock.now))
    machine.run(3)
    backend.sample(machine.now())
    machine.run(3)
    state = read(machine.path)
    assert state is not None
    write(replace(state, pid=78), machine.path)
    assert backend.sample(machine.now()) == []


@pytest.mark.parametrize("kind", [SimulatedGpu, SimulatedHost])
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00nonsense"])
def test_a_machine_that_does_not_start_is_said_to_be_absent_once_it_had_its_time(
    machine: Machine, kind: type[SimulatedGpu] | type[SimulatedHost], content: bytes | str | None
) -> None:
    if isinstance(content, bytes):
        machine.path.write_bytes(content)
    backend = kind(StateReader(str(machine.path), "simulated", machine.clock.now))
    assert backend.sample(EPOCH) == []
    (said,) = backend.sample(EPOCH + START_NS)
    assert isinstance(said, rec.Sampler)
    assert said.why == "the simulated machine does not start"


@pytest.mark.parametrize("kind", [SimulatedGpu, SimulatedHost])
@pytest.mark.parametrize("content", [None, b"", b"\xff\x00nonsense", "stale"])
def test_a_machine_that_has_ended_is_said_to_be_absent(
    machine: Machine, kind: type[SimulatedGpu] | type[SimulatedHost], content: bytes | str | None
) -> None:
    machine.run(1)
    backend = kind(StateReader(str(machine.path), "simulated", machine.clock.now))
    backend.sample(machine.now())
    if content is None:
        machine.path.unlink()
    elif isinstance(content, bytes):
        machine.path.write_bytes(content)
    else:
        machine.clock.wait_until(machine.clock.now() + STALE_NS + 1)
    (said,) = backend.sample(machine.now())
    assert isinstance(said, rec.Sampler)
    assert said.state == "absent"
    assert said.why == "the simulated machine no longer runs"


def test_the_names_that_samplers_look_for_are_there(tmp_path: Path) -> None:
    assert open_backend(str(tmp_path)).name == "simulated"
    assert open_host(str(tmp_path)).name == "host"
