"""gputop in a process of its own, meeting only those that share its directory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def environment(directory: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment whose only meeting place is `directory`, with no terminal's or user's settings."""
    env = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM", "GPUTOP")}
    env |= {"GPUTOP_DIR": str(directory), "GPUTOP_DIR_ONLY": "1", "TERM": "xterm-256color", **(more or {})}
    return env


def without_privilege() -> None:
    """In a child, before it becomes another program: also for root a file's mode counts (prctl(2), capabilities(7))."""
    pr_capbset_drop, dac_override, dac_read_search = 24, 1, 2
    for capability in (dac_override, dac_read_search):
        ctypes.CDLL(None).prctl(pr_capbset_drop, capability, 0, 0, 0)


def gputop(
    *words: str,
    directory: Path,
    env: Mapping[str, str] | None = None,
    timeout: float = 120,
    stdin: int | None = None,
    preexec_fn: Callable[[], None] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `gputop` to its end; stdout and stderr are pipes."""
    return subprocess.run(
        [sys.executable, "-m", "gputop", *words],
        env=environment(directory, env),
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        preexec_fn=preexec_fn,
    )
