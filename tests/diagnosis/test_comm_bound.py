"""comm-bound: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import MS, busy, expect, trace

CAUSE = "comm-bound"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "single": lambda: trace(
        {"data": 1, "forward": 30, "backward": 45, "optimizer": 5, "comm": 45},
        run={"rank": 0, "world_size": 8},
        gpu=busy(util_pct=100, power_w=250),
    ),
    "device": lambda: trace(
        {"data": 1, "forward": 30, "backward": 90, "optimizer": 5},
        device={"forward": 30, "backward": 45, "comm": 45, "optimizer": 5},
        run={"rank": 0, "world_size": 8},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "gpu-bound: util": lambda: trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70}, sync_count=1, sync_ns=70 * MS, gpu=busy()
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
