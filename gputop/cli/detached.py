"""Starts a recorder that lives apart from the command it records: no child of it, in a session of its own, silent."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Mapping
from pathlib import Path

from gputop.wire.cards import process_start

COMMAND = "GPUTOP_COMMAND"
"""In a recorded command's environment: its pid and start time, so that whatever it starts can be told to be its own."""

READY_S = 3.0
"""How long a command waits for its recorder. What is trained before it is ready isn't lost: it is asked for later."""

ENDED = (
    "the recorder ended before it could say why; `gputop record FILE` beside the training, in another terminal, will"
)

_BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; sys.path.append({root!r}); "
    "from gputop.cli.record import for_command; sys.exit(for_command(*sys.argv[2:]))"
)
"""Not `-m`, which puts the working folder first: a json.py lying there must not be what is imported."""


BEGUN, CALLED_OFF = b"b", b"x"
"""Words on the pipe to a recorder. If its starter ends before the first of them, there is no command to record."""


class Detached:
    """A recorder that has been started. `trouble` is what keeps it from recording, in a sentence."""

    def __init__(self, trouble: str | None, orders: int) -> None:
        self.trouble = trouble
        self._orders = orders

    def begin(self) -> None:
        """The very next thing is to become the command, which closes the pipe."""
        self._tell(BEGUN)

    def abandon(self) -> None:
        """The command could not be started: there will be nothing to record."""
        self._tell(CALLED_OFF)

    def _tell(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._orders, word)


def start(file: Path, environ: Mapping[str, str] = os.environ) -> Detached:
    """Start recording what this process is about to become; waits up to READY_S for it. Raises OSError."""
    ready, said = os.pipe()
    heard, orders = os.pipe()
    root = str(Path(__file__).resolve().parents[2])
    line = [sys.executable, "-c", _BOOT.format(root=root), "record", os.fspath(file.absolute())]
    line += [token(), str(said), str(heard)]
    env = {name: value for name, value in environ.items() if name not in ("PYTHONINSPECT", COMMAND)}
    middle = os.fork()
    if middle == 0:
        _become(line, env, (said, heard))
    os.close(said)
    os.close(heard)
    os.waitpid(middle, 0)
    try:
        return Detached(_answer(ready), orders)
    finally:
        os.close(ready)


def token(pid: int | None = None) -> str:
    """A process by its pid and start time, which no later process shares."""
    pid = os.getpid() if pid is None else pid
    return f"{pid}:{process_start(pid) or 0}"


def _become(line: list[str], env: dict[str, str], keep: tuple[int, ...]) -> None:
    """In the fork: fork again, so that the recorder is nobody's child, and run it. Never returns.

    What the shell handed down (a lock's descriptor, a pipe that someone reads to its end) is not held open by it.
    """
    try:
        os.setsid()
        if os.fork() == 0:
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(null, descriptor)
            for descriptor in map(int, os.listdir("/proc/self/fd")):
                with contextlib.suppress(OSError):
                    os.set_inheritable(descriptor, descriptor <= 2 or descriptor in keep)
            os.execve(line[0], line, env)
    finally:
        os._exit(0)


def _answer(ready: int) -> str | None:
    """None when the recorder says that it records (or takes its time), else why it doesn't."""
    if not select.select([ready], [], [], READY_S)[0]:
        return None
    said = os.read(ready, 4096).decode(errors="replace").strip()
    return None if said == "ready" else said or ENDED
