"""The host backend: the machine's figures and the processes followed, once a tick."""

from __future__ import annotations

import time

from gputop.records import Host, Record
from gputop.samplers.host_fields import Machine
from gputop.samplers.processes import Processes
from gputop.samplers.protocol import Say, Targets, unheard


class MachineBackend:
    """This machine, by psutil and /proc. Figures that it does not have are named as unsupported."""

    name = "host"

    def __init__(self, *, host: str, say: Say = unheard) -> None:
        self._host = host
        self._say = say
        self._machine = Machine()
        self._processes = Processes(host)

    def open(self) -> None:
        """Nothing to get ready."""

    def close(self) -> None:
        """Nothing to let go of."""

    def follow(self, targets: Targets) -> None:
        """Follow these processes from the next tick on; the first one's control group is the one looked at."""
        self._machine.pid = next(iter(targets.pids), None)
        self._processes.follow(targets)

    def sample(self, now_ns: int) -> list[Record]:
        """One tick."""
        self._machine.now_ns = now_ns
        self._machine.answers.gather(self._machine, now_ns, self._say)
        self._say("/proc/PID")
        began = time.perf_counter_ns()
        processes = self._processes.sample(now_ns)
        self._processes.spent(time.perf_counter_ns() - began, now_ns)
        self._say("")
        return [Host(t=now_ns, host=self._host, **self._machine.answers.fields()), *processes]
