"""Starts the demo's training process in a folder of its own, and makes sure that neither outlives the demo."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import weakref
from pathlib import Path

from gputop.simulation.child import STATE_FILE
from gputop.simulation.scenarios import SCENARIOS
from gputop.wire.cards import process_start

PREFIX = "gputop-demo-"

LEAVE_S = 2.0
"""How long the process may take to say goodbye before it is killed: a step and the publisher's own end."""


class DemoProcess:
    """A running demo. `env` is what a viewer needs to find it, `state_path` what the simulated samplers read."""

    def __init__(self, process: subprocess.Popen[bytes], folder: Path, env: dict[str, str]) -> None:
        self.process = process
        self.folder = folder
        self.state_path = folder / STATE_FILE
        self.env = env
        self._finalizer = weakref.finalize(self, _end, process, folder)

    @property
    def pid(self) -> int:
        """The training process's pid."""
        return self.process.pid

    @property
    def backend(self) -> str:
        """What the samplers' `--backend` is for this machine."""
        return f"simulated:{self.state_path}"

    def poll(self) -> int | None:
        """Its exit status; None while it trains."""
        return self.process.poll()

    def why(self) -> str:
        """The last line that it said on stderr: why it ended, if it did so by itself."""
        with contextlib.suppress(OSError):
            lines = (self.folder / "stderr").read_text(errors="replace").strip().splitlines()
            return lines[-1] if lines else ""
        return ""

    def stop(self) -> None:
        """End it and remove its folder. May be called twice."""
        self._finalizer()


def start(
    scenario: str, *, fixed: bool = False, speed: float = 1.0, seconds: float | None = None, seed: int = 0
) -> DemoProcess:
    """Start a scenario's training. Raises KeyError for an unknown one, ValueError for a bad speed, OSError."""
    SCENARIOS[scenario].physics(fixed=fixed, speed=speed)
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-{process_start(os.getpid()) or 0}-", dir=_parent()))
    env = {**os.environ, "GPUTOP_DIR": str(folder), "GPUTOP_DIR_ONLY": "1", "PYTHONUNBUFFERED": "1"}
    env.pop("GPUTOP", None)
    root = str(Path(__file__).resolve().parents[2])
    boot = f"import sys; sys.path.append({root!r}); from gputop.simulation.child import main; sys.exit(main())"
    line = [sys.executable, "-c", boot, scenario, "--folder", str(folder), "--speed", str(speed), "--seed", str(seed)]
    line += ["--fixed"] if fixed else []
    line += ["--seconds", str(seconds)] if seconds is not None else []
    try:
        with open(folder / "stderr", "wb") as stderr:
            process = subprocess.Popen(
                line, env=env, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=stderr, start_new_session=True
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return DemoProcess(process, folder, env)


def sweep() -> None:
    """Remove what demos left that were killed together with their training process."""
    for folder in _parent().glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).split("-")
        if len(owner) < 3 or not (owner[0].isdecimal() and owner[1].isdecimal()):
            continue
        with contextlib.suppress(OSError):
            mine = folder.lstat().st_uid == os.getuid() and not folder.is_symlink()
            if mine and process_start(int(owner[0])) != int(owner[1]) and Path("/proc/self/stat").exists():
                shutil.rmtree(folder, ignore_errors=True)


def _parent() -> Path:
    """Where folders are made: a short path, since sockets stand in them."""
    short = Path("/tmp")
    return short if os.access(short, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        process.wait(LEAVE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    shutil.rmtree(folder, ignore_errors=True)
