"""A sampler's process: asks one backend once a tick and writes what it says as frames on stdout.

    python -m gputop.samplers.child gpu|host [--interval S] [--backend nvml|host|simulated:PATH]

Lines of JSON come in on stdin, any of: {"pids": {"4242": RUN_ID}, "workers": {"4242": [4243, ...]}, "interval": 0.5,
"cmdline": false, "hung": {"nvmlDeviceGetPowerUsage gpu 0": 60000000000}}. The end of stdin, or of the parent, ends it.
Nothing but frames is ever written to stdout: the descriptor itself is moved away, since a driver library may print.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any, cast

import msgspec

from gputop.records import Record, Sampler
from gputop.samplers.board import Board
from gputop.samplers.frames import frame
from gputop.samplers.protocol import GpuBackend, HostBackend, S, Say, Targets, unheard

HEARTBEAT_NS = S
"""The longest silence between frames, also when ticks are further apart."""

FIRST_GAP_NS = S // 4
"""Between the first two ticks: rates need two, and the screen should not wait a whole interval for them."""

SHARE = 10
"""A tick that took long is followed by a pause of ten times that, so that the driver's lock is held a tenth of the
time at most: polling at 40 Hz once held it for two thirds and stalled the work."""

MAX_PAUSE_NS = 10 * S
SLOW_NS = S // 2
SELF_EVERY_NS = 5 * S
"""How often an untroubled sampler reports its own cost."""

MOST_MEMORY_BYTES = 1 << 30
"""Of its own data, twenty times what it needs: a driver that claims a million processes is refused the room for them,
which costs that one figure."""

MIN_INTERVAL_S, MAX_INTERVAL_S = 0.1, 60.0
MAX_LINE_BYTES = 1 << 20


class Ended(Exception):  # noqa: N818
    """The parent is gone."""


class Told(msgspec.Struct):
    """One line from the parent; absent keys leave things as they are."""

    pids: dict[str, str | None] | None = None
    workers: dict[str, list[int]] | None = None
    interval: float | None = None
    cmdline: bool | None = None
    hung: dict[str, int] | None = None


class Inbox:
    """The parent's lines."""

    def __init__(self, fd: int, parent: int) -> None:
        self._fd = fd
        self._parent = parent
        self._rest = b""
        self._decode = msgspec.json.Decoder(Told).decode

    def wait(self, timeout_ns: int) -> list[Told]:
        """What has been told within the time. Raises Ended."""
        ready, _, _ = select.select([self._fd], [], [], max(timeout_ns, 0) / S)
        if os.getppid() != self._parent:
            raise Ended
        if not ready:
            return []
        data = os.read(self._fd, 1 << 16)
        if not data:
            raise Ended
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            self._rest = b""
        told = []
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError, UnicodeDecodeError):
                told.append(self._decode(line))
        return told


class Loop:
    """The ticks: when the next one is due, what is followed, how often the sampler speaks of itself."""

    def __init__(
        self, backend: GpuBackend, inbox: Inbox, send: Callable[[bytes], None], *,
        host: str, interval_s: float, clock: Callable[[], int],
    ) -> None:  # fmt: skip
        self.backend = backend
        self.inbox = inbox
        self.host = host
        self.interval_ns = int(interval_s * S)
        self.targets = Targets()
        self._send = send
        self._clock = clock
        self._reported_ns = 0
        self._used: tuple[int, int] | None = None
        self._ticks = 0

    def run(self) -> None:
        """Tick until the parent is gone. Raises Ended."""
        self._hear(0)  # also what is not to be asked while it opens
        self.backend.open()
        while True:
            began = self._clock()
            self._hear(0)
            records = self._sample(began)
            took = self._clock() - began
            self._send(frame([*records, *self._own(began, took)]))
            self._ticks += 1
            first = min(self.interval_ns, FIRST_GAP_NS) if self._ticks == 1 else None
            self._pause(began + self._gap(took, first))

    def _sample(self, now_ns: int) -> list[Record]:
        try:
            return self.backend.sample(now_ns)
        except Exception as error:
            return [self._sampler(now_ns, "absent", why=f"{type(error).__name__} in the sampler: {error}")]

    def _own(self, now_ns: int, took_ns: int) -> list[Record]:
        slow = took_ns >= SLOW_NS
        if not slow and now_ns - self._reported_ns < SELF_EVERY_NS:
            return []
        self._reported_ns = now_ns
        if not slow:
            return [self._sampler(now_ns, "ok", **self._cost(now_ns, took_ns))]
        why = f"one round took {took_ns / S:.1f} s: asking less often"
        return [self._sampler(now_ns, "slow", why=why, **self._cost(now_ns, took_ns))]

    def _cost(self, now_ns: int, took_ns: int) -> dict[str, Any]:
        """What this process costs: the last round, how long until the next, its share of a core since it last said."""
        used = (now_ns, time.process_time_ns())
        before, self._used = self._used, used
        cost: dict[str, Any] = {"self_ns": took_ns, "every_ns": self._gap(took_ns)}
        if before is not None and used[0] > before[0]:
            cost["cpu_pct"] = round(100 * (used[1] - before[1]) / (used[0] - before[0]), 2)
        return cost

    def _gap(self, took_ns: int, wanted_ns: int | None = None) -> int:
        """From one round to the next: as wanted, but longer after one that took long."""
        return max(self.interval_ns if wanted_ns is None else wanted_ns, min(took_ns * SHARE, MAX_PAUSE_NS))

    def _sampler(self, now_ns: int, state: str, **more: Any) -> Sampler:
        return Sampler(t=now_ns, host=self.host, backend=self.backend.name, state=state, **more)

    def _pause(self, due_ns: int) -> None:
        beat = self._clock() + HEARTBEAT_NS
        while (now := self._clock()) < due_ns:
            if now >= beat:
                self._send(frame([]))
                beat = now + HEARTBEAT_NS
            self._hear(min(due_ns, beat) - now)

    def _hear(self, timeout_ns: int) -> None:
        for told in self.inbox.wait(timeout_ns):
            if told.interval is not None:
                self.interval_ns = int(min(max(told.interval, MIN_INTERVAL_S), MAX_INTERVAL_S) * S)
            self.targets = retarget(self.targets, told)
            if hasattr(self.backend, "follow"):
                cast(HostBackend, self.backend).follow(self.targets)


def retarget(old: Targets, told: Told) -> Targets:
    """The targets after a line from the parent."""
    pids, workers = old.pids, old.workers
    if told.pids is not None:
        pids = {int(pid): run for pid, run in told.pids.items() if pid.isdecimal()}
    if told.workers is not None:
        workers = {int(pid): tuple(them) for pid, them in told.workers.items() if pid.isdecimal()}
    return Targets(
        pids=pids, workers=workers, cmdline=old.cmdline if told.cmdline is None else told.cmdline,
        hung=old.hung if told.hung is None else told.hung,
    )  # fmt: skip


def load(kind: str, backend: str | None, host: str, say: Say) -> GpuBackend:
    """The backend that the command line names. Raises ImportError, OSError or ValueError with what is wrong."""
    name, _, path = (backend or {"gpu": "nvml"}.get(kind, kind)).partition(":")
    if name == "simulated":
        module = importlib.import_module(f"gputop.simulation.{kind}_backend")
        return cast(GpuBackend, module.open_backend(path))
    if (kind, name) == ("gpu", "nvml"):
        from gputop.samplers import backends

        return backends.here(host=host, say=say)
    if (kind, name) == ("host", "host"):
        from gputop.samplers.host import MachineBackend

        return MachineBackend(host=host, say=say)
    raise ValueError(f"no {kind} sampler is called {name!r}")


def take_stdout() -> Callable[[bytes], None]:
    """A writer on what stdout was; stdout itself leads nowhere from here on."""
    fd = os.dup(1)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.close(null)

    def send(data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]

    return send


def die_with_parent(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent dies: a child inside a hung driver can't see the end of stdin."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG of <linux/prctl.h>
    if os.getppid() != parent:
        raise Ended


def limit_memory() -> None:
    """Have the kernel refuse this process more memory than MOST_MEMORY_BYTES."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        limit = MOST_MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MOST_MEMORY_BYTES, most)
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def main(argv: list[str] | None = None) -> int:
    """The child's process. Returns its exit status."""
    parser = argparse.ArgumentParser(prog="gputop.samplers.child")
    parser.add_argument("kind", choices=["gpu", "host"])
    parser.add_argument("--interval", type=float, default=1.0)
    parser.add_argument("--backend")
    parser.add_argument("--offset-ns", type=int)
    parser.add_argument("--board", type=int)
    args = parser.parse_args(argv)
    parent, host, send = os.getppid(), socket.gethostname(), take_stdout()
    offset = time.time_ns() - time.monotonic_ns() if args.offset_ns is None else args.offset_ns
    say = Board(args.board).say if args.board is not None else unheard
    try:
        die_with_parent(parent)
        limit_memory()
        backend = load(args.kind, args.backend, host, say)
        Loop(
            backend, Inbox(0, parent), send,
            host=host, interval_s=args.interval, clock=lambda: offset + time.monotonic_ns(),
        ).run()  # fmt: skip
    except (Ended, BrokenPipeError):
        return 0
    except Exception as error:
        why = f"the {args.kind} sampler can't run: {error}"
        with contextlib.suppress(OSError):
            name = args.backend or args.kind
            send(frame([Sampler(t=offset + time.monotonic_ns(), host=host, backend=name, state="absent", why=why)]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
