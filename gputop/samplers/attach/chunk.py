"""One run of py-spy on a process: started, looked at without waiting, and read once it has ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import threading
import time
from typing import NamedTuple

from gputop.samplers.attach import stacks, tool

PATIENCE_S = 15.0
"""How much longer than asked for py-spy may take before it is ended: it first reads the program's symbols."""


class Sampled(NamedTuple):
    """What a run of py-spy yielded, `age_ns` ago: the stacks of threads; `refused` where it yielded none."""

    threads: list[stacks.Thread]
    age_ns: int = 0
    refused: tool.Refused | None = None


class Chunk:
    """A running py-spy. `poll` never waits; `close` ends it at once and leaves no file."""

    def __init__(self, program: str, pid: int, seconds: float, *, idle: bool = True) -> None:
        """Raises Refused when py-spy can't be started."""
        self.pid = pid
        self.patience_s = seconds + PATIENCE_S
        self._folder = tempfile.mkdtemp(prefix="gputop-attach-")
        self._out = os.path.join(self._folder, "stacks.json")
        self._errors = os.path.join(self._folder, "errors")
        try:
            with open(self._errors, "wb") as errors:
                self._process = subprocess.Popen(
                    tool.command(program, pid, seconds, self._out, idle=idle),
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
                )  # fmt: skip
        except OSError as error:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise tool.Refused(f"py-spy can't be started: {error.strerror or error}", tool.INSTALL) from None

    def poll(self) -> Sampled | None:
        """What was sampled, None while it goes on."""
        status = self._process.poll()
        if status is None:
            return None
        try:
            if status == 0 and os.path.exists(self._out):
                with open(self._out, "rb") as file:
                    age = max(0, time.time_ns() - os.fstat(file.fileno()).st_mtime_ns)
                    return Sampled(stacks.read(file.read()), age)
            with open(self._errors, "rb") as file:
                said = tool.last_words([file.read()])
            return Sampled([], refused=tool.refusal(said, self.pid))
        except (OSError, ValueError, KeyError, TypeError) as error:
            why = f"what py-spy wrote can't be read: {error}"
            return Sampled([], refused=tool.Refused(why, "pip install --upgrade py-spy"))
        finally:
            self.close()

    def close(self) -> None:
        """End it, waiting for nothing."""
        if self._process.poll() is None:
            self._process.kill()
            threading.Thread(target=self._process.wait, name="gputop-reaper", daemon=True).start()
        shutil.rmtree(self._folder, ignore_errors=True)
