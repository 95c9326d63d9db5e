"""Fixtures that every part's tests may use."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

signal.signal(signal.SIGINT, signal.default_int_handler)
"""A suite started in the background inherits an ignored SIGINT, and so would every child that a test interrupts."""


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A private directory whose path is short enough for a Unix socket."""
    path = Path(tempfile.mkdtemp(prefix="gt-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
