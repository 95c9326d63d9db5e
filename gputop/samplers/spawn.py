"""Starts a sampler's child and holds the parent's ends of its pipes. Nothing here ever waits for the child."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from gputop.samplers.board import Board

_BOOT = (
    "import sys; sys.path[:] = [p for p in sys.path if p]; sys.path.append({root!r}); "
    "from gputop.samplers.child import main; sys.exit(main())"
)
"""Not `-m`, which puts the working folder first: a psutil.py or json.py lying there must not be what is imported."""


def command(kind: str, *, interval_s: float, backend: str | None = None, offset_ns: int | None = None) -> list[str]:
    """The command line of a child. `kind` is "gpu" or "host"; `backend` None is the real one."""
    root = str(Path(__file__).resolve().parents[2])
    line = [sys.executable, "-c", _BOOT.format(root=root), kind, "--interval", f"{interval_s:g}"]
    if backend is not None:
        line += ["--backend", backend]
    if offset_ns is not None:
        line += ["--offset-ns", str(offset_ns)]
    return line


class Spawned:
    """A running child: `fd` gives its frames, `board` what it is calling."""

    def __init__(self, line: Sequence[str], env: Mapping[str, str] | None = None) -> None:
        """Starts it, in a session of its own. Raises OSError."""
        self.board = Board.create()
        self._released = threading.Lock()
        try:
            self._process = subprocess.Popen(
                [*line, "--board", str(self.board.fd)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={name: value for name, value in (env or os.environ).items() if name != "PYTHONINSPECT"},
                pass_fds=(self.board.fd,),
                start_new_session=True,
                bufsize=0,
            )
        except BaseException:
            self.board.close()
            raise
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.pid = self._process.pid
        self.fd = self._stdout.fileno()
        os.set_blocking(self.fd, False)
        os.set_blocking(self._stdin.fileno(), False)

    def read(self, size: int) -> bytes | None:
        """What the pipe has, b"" at its end, None when there is nothing now."""
        try:
            return self._stdout.read(size)
        except (OSError, ValueError):
            return b""

    def write(self, data: bytes) -> int:
        """How many of the bytes the child's input took: none when it is full or gone."""
        try:
            return self._stdin.write(data) or 0
        except (OSError, ValueError):
            return 0

    def poll(self) -> int | None:
        """Its exit status, None while it runs (or is stuck in the kernel)."""
        return self._process.poll()

    def kill(self) -> None:
        """SIGKILL, without waiting."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def call(self) -> tuple[str, int] | None:
        """The call that it is making and its age in ns."""
        try:
            return self.board.read()
        except ValueError:
            return None

    def release(self) -> None:
        """Close the pipes and the board, and leave the reaping of a child that still runs to a thread of its own.

        May be called from another thread than the one that reads; only the first call does anything.
        """
        if self._released.acquire(blocking=False):
            self._let_go()

    def _let_go(self) -> None:
        for pipe in (self._stdin, self._stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        self.board.close()
        if self._process.poll() is None:
            threading.Thread(target=self._process.wait, name="gputop-reaper", daemon=True).start()
