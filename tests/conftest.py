"""Fixtures that every part's tests may use."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A suite started in the background inherits an ignored SIGINT, and so would every child that a test interrupts."""

if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)
"""Likewise of a suite under nohup: a handler is not inherited, so that its children may be hung up, and it goes on."""

os.environ["GPUTOP_CONFIG"] = os.devnull
"""Whoever runs the suite may have settings of their own."""


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A private directory whose path is short enough for a Unix socket."""
    path = Path(tempfile.mkdtemp(prefix="gt-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte, where one may be mounted."""
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("mounting is not permitted here")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)
