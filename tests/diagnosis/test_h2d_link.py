"""h2d-link: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import MS, busy, expect, low, trace

CAUSE = "h2d-link"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "copies that nothing waits for, by their bytes and the link": lambda: trace(
        {"data": 1, "h2d": 0.02, "forward": 60, "backward": 90, "optimizer": 4},
        h2d_bytes=800_000_000,
        h2d_pageable_bytes=0,
        loader={"pin_memory": True},
        gpu=low(30, pcie_gen=3, pcie_gen_max=3, pcie_width=8, pcie_width_max=8),
    ),
    "degraded": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=250_000_000,
        h2d_pageable_bytes=0,
        loader={"pin_memory": True},
        gpu=low(55, pcie_gen=3, pcie_gen_max=5, pcie_width=8, pcie_width_max=16),
    ),
    "peak": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=1_000_000_000,
        h2d_pageable_bytes=0,
        loader={"pin_memory": True},
        gpu=low(55, pcie_gen=4, pcie_gen_max=4, pcie_width=16, pcie_width_max=16, pcie_rx_bytes_s=24e9),
    ),
    "steps only": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=1_000_000_000,
        h2d_pageable_bytes=0,
    ),
    "device": lambda: trace(
        {"data": 1, "h2d": 2, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=1_000_000_000,
        h2d_pageable_bytes=0,
        device={"h2d": 40, "forward": 20, "backward": 35, "optimizer": 4},
        gpu=low(55),
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "cpu-fallback: a few bytes that wait behind the device's own work": lambda: trace(
        {"data": 1, "h2d": 350, "forward": 500, "backward": 100, "optimizer": 4},
        n=40,
        h2d_bytes=98_000,
        h2d_pageable_bytes=0,
        loader={"pin_memory": True},
        gpu=low(65, pcie_gen=2, pcie_gen_max=4, pcie_width=8, pcie_width_max=16),
        model={"devices": {"cuda:0": 25_000_000}, "on_cpu": ["operator nms"]},
    ),
    "h2d-pageable: steps only": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=200_000_000,
        h2d_pageable_bytes=200_000_000,
    ),
    "h2d-pageable: device": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=200_000_000,
        h2d_pageable_bytes=200_000_000,
        device={"h2d": 40, "forward": 20, "backward": 35, "optimizer": 4},
        idle={"data": 0.5},
        queue_empty=0.5,
        gpu=low(55),
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
