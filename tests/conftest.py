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
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, lambda *_: None)
"""A suite started in the background, or under nohup, has signals ignored, and so would every child that a test sends
one to. A handler is not inherited: the children have the signal's own way, and the suite still takes no notice."""

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
