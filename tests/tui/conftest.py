"""Times of the day on the screen are local: in tests, everybody lives in Greenwich."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from gputop.tui import offering


@pytest.fixture(autouse=True)
def greenwich() -> Iterator[None]:
    """UTC, in this process and its children."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.fixture(autouse=True)
def every_process_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests: what is drawn of others' processes must not depend on it."""
    monkeypatch.setattr(offering, "may_trace", lambda _owner: True)
