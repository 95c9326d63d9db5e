"""What a sampler's backend is: opened, asked once a tick, closed; it never raises for what a device does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

import msgspec

from gputop.records import Record

S = 1_000_000_000
"""Nanoseconds in a second."""

Say = Callable[[str], None]
"""Called with the name of a call that may hang, right before it is made, and with "" when none is being made."""


def unheard(_call: str) -> None:
    """A `Say` that nobody listens to."""


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """Which processes the host sampler follows.

    `pids` are the training processes with their run_id, `workers` the loader workers that a publisher has named for a
    pid; `cmdline` is whether command lines may be read at all. `hung` are calls, as named to `Say`, in which a sampler
    before has hung, and for how long (ns) from now on they are not made.
    """

    pids: Mapping[int, str | None] = {}
    workers: Mapping[int, tuple[int, ...]] = {}
    cmdline: bool = True
    hung: Mapping[str, int] = {}


class GpuBackend(Protocol):
    """Samples devices. One object, one thread, in a process of its own."""

    name: str

    def open(self) -> None:
        """Get ready. What is missing is not raised but told by `sample` (a `sampler` record, state "absent")."""

    def sample(self, now_ns: int) -> list[Record]:
        """One tick: `gpu`, `burst` and `sampler` records. `now_ns` is the trace's clock: epoch ns that never steps."""

    def close(self) -> None:
        """Let go of the driver."""


class HostBackend(GpuBackend, Protocol):
    """Samples the machine and processes: `host`, `process` and `sampler` records."""

    def follow(self, targets: Targets) -> None:
        """Follow these processes from the next tick on."""
