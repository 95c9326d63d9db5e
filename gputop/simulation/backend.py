"""A simulated machine's state file as a sampler reads it: the newest state, on the trace's clock."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from gputop.records import Sampler
from gputop.simulation.state import State, read, shifted

STALE_NS = 3_000_000_000
"""A state older than this was left by a run that has ended: it is written ten times a second."""

START_NS = 10_000_000_000
"""How long a machine may take to appear: an interpreter's start on a busy machine, with room."""


class StateReader:
    """Reads the file of a simulation that runs on this machine, whose monotonic clock the reader shares."""

    def __init__(self, path: str, name: str, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.name = name
        self._path = Path(path)
        self._clock = clock
        self._since = 0
        self._found = False

    def read(self, now_ns: int) -> State | None:
        """The newest state with times on the clock that shows `now_ns` now; None when there is none or a stale one."""
        state, monotonic = read(self._path), self._clock()
        self._since = self._since or now_ns
        self._found |= state is not None
        if state is None or monotonic - state.t > STALE_NS:
            return None
        return shifted(state, now_ns - monotonic)

    def missing(self, now_ns: int) -> list[Sampler]:
        """That there is nothing to read; nothing yet while the machine may still be starting."""
        if now_ns - self._since < START_NS and not self._found:
            return []
        why = "the simulated machine no longer runs" if self._found else "the simulated machine does not start"
        return [Sampler(t=now_ns, host=socket.gethostname(), backend=self.name, state="absent", why=why)]
