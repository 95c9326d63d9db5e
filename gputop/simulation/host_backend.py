"""A host sampler's backend (`gputop.samplers.protocol.HostBackend`) on a simulated machine."""

from __future__ import annotations

import msgspec

from gputop.records import Record
from gputop.samplers.protocol import Targets
from gputop.simulation import readings
from gputop.simulation.backend import StateReader
from gputop.simulation.state import State


class SimulatedHost:
    """Says what /proc of the simulated machine would: `host` and `process` records, rates between two ticks."""

    name = "host"

    def __init__(self, reader: StateReader) -> None:
        self._reader = reader
        self._seen: State | None = None
        self._targets = Targets()

    def open(self) -> None:
        """Nothing to open: the file is read whole at each tick."""

    def follow(self, targets: Targets) -> None:
        """The runs' names: the simulated machine has only the one training process."""
        self._targets = targets

    def sample(self, now_ns: int) -> list[Record]:
        """One tick; the first has nothing to take rates from."""
        state, since = self._reader.read(now_ns), self._seen
        if state is None:
            return [*self._reader.missing(now_ns)]
        self._seen = state
        if since is None or since.pid != state.pid or state.t - since.t < 50_000_000:
            return []
        process = readings.process(state, since)
        run_id = self._targets.pids.get(process.pid)
        return [readings.host(state, since), msgspec.structs.replace(process, run_id=run_id)]

    def close(self) -> None:
        """Nothing to close."""


def open_backend(path: str) -> SimulatedHost:
    """The backend on the state file of a simulation."""
    return SimulatedHost(StateReader(path, SimulatedHost.name))
