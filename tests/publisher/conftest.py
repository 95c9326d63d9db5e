"""A place to meet that is the test's own, and a publisher that is gone afterwards."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.publisher import core
from gputop.publisher.segment import Segment
from tests.publisher.processes import end_all


@pytest.fixture(autouse=True)
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """GPUTOP_DIR, short enough for a socket's path."""
    with tempfile.TemporaryDirectory(prefix="gt") as folder:
        path = Path(folder) / "d"
        monkeypatch.setenv("GPUTOP_DIR", str(path))
        monkeypatch.setenv("GPUTOP_DIR_ONLY", "1")
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        monkeypatch.delenv("GPUTOP", raising=False)
        yield path
        end_all()


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Segment]]:
    """The steps that publishers of this test give out; whatever watches in the end is stopped."""
    out: list[Segment] = []
    plain = core.Publisher._emit

    def emit(self: core.Publisher, seg: Segment) -> None:
        out.append(seg)
        plain(self, seg)

    monkeypatch.setattr(core.Publisher, "_emit", emit)
    yield out
    if core.current is not None and core.current.active:
        core.current.stop()
