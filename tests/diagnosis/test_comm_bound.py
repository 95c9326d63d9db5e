"""comm-bound: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, MS, busy, expect, trace

CAUSE = "comm-bound"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "no mark tells, the power does": lambda: trace(
        COMPUTE, run={"rank": 0, "world_size": 4}, gpu=busy(util_pct=100, power_w=100, power_limit_w=400)
    ),
    "single": lambda: trace(
        {"data": 1, "forward": 30, "backward": 45, "optimizer": 5, "comm": 45},
        run={"rank": 0, "world_size": 8},
        gpu=busy(util_pct=100, power_w=250),
    ),
    "how many ranks there are is not known": lambda: trace(
        {"data": 0.03, "forward": 0.97, "comm": 3.1, "optimizer": 0.2}, n=3000
    ),
    "device": lambda: trace(
        {"data": 1, "forward": 30, "backward": 90, "optimizer": 5},
        device={"forward": 30, "backward": 45, "comm": 45, "optimizer": 5},
        run={"rank": 0, "world_size": 8},
    ),
    "inside backward": lambda: trace(
        {"data": 1, "forward": 60, "backward": 60, "optimizer": 5},
        device={"data": 0, "forward": 20, "backward": 110, "optimizer": 5},
        ms=135,
        queue_empty=0.0,
        run={"rank": 0, "world_size": 8},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "gpu-bound: as little power, and no other rank": lambda: trace(
        COMPUTE, gpu=busy(util_pct=100, power_w=100, power_limit_w=400)
    ),
    "gpu-bound: as little power, and the device's own clock shows a short exchange": lambda: trace(
        {"data": 1, "forward": 60, "backward": 60, "comm": 1, "optimizer": 5},
        device={"data": 0, "forward": 40, "backward": 80, "comm": 2, "optimizer": 5},
        ms=127,
        queue_empty=0.0,
        run={"rank": 0, "world_size": 8},
        gpu=busy(util_pct=100, power_w=100, power_limit_w=400),
    ),
    "throttled: little power as the clocks are held down": lambda: trace(
        COMPUTE,
        run={"rank": 0, "world_size": 4},
        gpu=busy(util_pct=100, power_w=100, power_limit_w=400, sm_clock_mhz=400, sm_clock_max_mhz=1410),
    ),
    "gpu-bound: recomputed activations": lambda: trace(
        {"data": 1, "forward": 60, "backward": 60, "optimizer": 5},
        device={"data": 0, "forward": 30, "backward": 95, "optimizer": 5},
        ms=130,
        queue_empty=0.0,
        run={"rank": 0, "world_size": 8},
    ),
    "gpu-bound: a job of one": lambda: trace(
        {"data": 1, "forward": 60, "backward": 60, "optimizer": 5},
        device={"data": 0, "forward": 20, "backward": 110, "optimizer": 5},
        ms=135,
        queue_empty=0.0,
    ),
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
