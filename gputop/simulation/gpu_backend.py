"""A GPU sampler's backend (`gputop.samplers.protocol.GpuBackend`) on a simulated device."""

from __future__ import annotations

from gputop.records import Record
from gputop.simulation import readings
from gputop.simulation.backend import StateReader
from gputop.simulation.state import State


class SimulatedGpu:
    """Says what the driver of the simulated device would: `gpu` and `burst` records."""

    name = "simulated"

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._seen: State | None = None

    def open(self) -> None:
        """Nothing to open: the file is read whole at each tick."""

    def sample(self, now_ns: int) -> list[Record]:
        """One tick."""
        state = self._reader.read(now_ns)
        if state is None:
            return [*self._reader.missing(now_ns)]
        burst = readings.burst(state, self._seen)
        self._seen = state
        return [readings.gpu(state), *([burst] if burst else [])]

    def close(self) -> None:
        """Nothing to close."""


def open_backend(path: str) -> SimulatedGpu:
    """The backend on the state file of a simulation."""
    return SimulatedGpu(StateReader(path, SimulatedGpu.name))
