"""h2d-pageable: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, expect, low, trace

CAUSE = "h2d-pageable"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "steps only": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=200_000_000,
        h2d_pageable_bytes=200_000_000,
    ),
    "loader pin false": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=200_000_000,
        loader={"pin_memory": False},
        gpu=low(55),
    ),
    "device": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=200_000_000,
        h2d_pageable_bytes=200_000_000,
        device={"h2d": 40, "forward": 20, "backward": 35, "optimizer": 4},
        idle={"data": 0.5},
        queue_empty=0.5,
        gpu=low(55),
    ),
    "util high-ish": lambda: trace(
        {"data": 1, "h2d": 30, "forward": 20, "backward": 40, "optimizer": 4},
        h2d_bytes=154_000_000,
        h2d_pageable_bytes=154_000_000,
        gpu=low(65),
        loader={"num_workers": 4, "pin_memory": False},
    ),
    "blocks hidden sync": lambda: trace(
        {"data": 1, "h2d": 30, "forward": 4, "backward": 4, "optimizer": 2},
        h2d_bytes=154_000_000,
        h2d_pageable_bytes=154_000_000,
        device={"h2d": 20, "forward": 8, "backward": 9, "optimizer": 2},
        queue_empty=0.6,
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "h2d-link: degraded": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=250_000_000,
        h2d_pageable_bytes=0,
        loader={"pin_memory": True},
        gpu=low(55, pcie_gen=3, pcie_gen_max=5, pcie_width=8, pcie_width_max=16),
    ),
    "h2d-link: peak": lambda: trace(
        {"data": 1, "h2d": 40, "forward": 20, "backward": 30, "optimizer": 4},
        h2d_bytes=1_000_000_000,
        h2d_pageable_bytes=0,
        loader={"pin_memory": True},
        gpu=low(55, pcie_gen=4, pcie_gen_max=4, pcie_width=16, pcie_width_max=16, pcie_rx_bytes_s=24e9),
    ),
    "gpu-bound: events": lambda: trace(
        COMPUTE, device={"forward": 32, "backward": 44, "optimizer": 8}, idle={"data": 0.4}, queue_empty=0.05
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
