"""The demo's training process: the simulated loop in real time, reported through gputop's public API.

    python -m gputop.simulation.child SCENARIO --folder DIR [--fixed] [--speed X] [--seconds S] [--seed N]

It writes the machine's state for the samplers into the folder ten times a second, and ends with its standard input:
whoever started it holds the other end. The folder is gone when it is.
"""

from __future__ import annotations

import argparse
import os
import select
import shutil
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any

import gputop
from gputop.simulation.clock import RealClock
from gputop.simulation.device import SimulatedClock
from gputop.simulation.identity import identity
from gputop.simulation.live import LiveTap, say_model
from gputop.simulation.loop import Tap, train
from gputop.simulation.rig import Rig
from gputop.simulation.scenarios import SCENARIOS
from gputop.simulation.state import observe, write

TICK_NS = 100_000_000
"""How often the state is written and the parent looked for."""

STATE_FILE = "machine.state"


class Child:
    """One run: the rig, what it is watched through, and when it is over."""

    def __init__(self, args: argparse.Namespace, stdin: int | None = 0) -> None:
        self.over = False
        self._stdin = stdin
        self._path = Path(args.folder) / STATE_FILE
        self._ends_at = time.monotonic() + args.seconds if args.seconds else None
        physics = SCENARIOS[args.scenario].physics(fixed=args.fixed, speed=args.speed)
        self.rig = Rig(RealClock(TICK_NS, self.tick), physics, args.seed)
        self.clock = SimulatedClock(
            self.rig.device, identity(physics, args.scenario), used=physics.model.on_device, cpu=self.rig.main_cpu
        )

    def tick(self, _now: int) -> None:
        """Write the state; see whether it is time to end."""
        try:
            write(observe(self.rig, pid=os.getpid(), host=socket.gethostname()), self._path)
        except OSError:
            self.over = True
        if self._orphaned() or (self._ends_at is not None and time.monotonic() >= self._ends_at):
            self.over = True

    def run(self, tap: Tap) -> int:
        """Train until it is over; returns the number of steps."""
        step = 0
        for step in train(self.rig, tap):  # noqa: B007
            if self.over:
                break
        return step

    def _orphaned(self) -> bool:
        if self._stdin is None:
            return False
        ready, _, _ = select.select([self._stdin], [], [], 0)
        return bool(ready) and not os.read(self._stdin, 4096)


def arguments(argv: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="gputop.simulation.child")
    parser.add_argument("scenario", choices=list(SCENARIOS))
    parser.add_argument("--folder", required=True)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """The process. Returns its exit status."""
    args = arguments(argv)
    child = Child(args)

    def leave(*_: Any) -> None:
        child.over = True

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGINT, leave)
    publisher = gputop.watch(device=child.clock, loader=child.rig.loader)
    say_model(child.rig.physics)
    try:
        child.run(LiveTap())
    finally:
        publisher.stop()
        shutil.rmtree(args.folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
