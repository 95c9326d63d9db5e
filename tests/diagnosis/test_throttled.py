"""throttled: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, busy, expect, trace

CAUSE = "throttled"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "thermal": lambda: trace(
        COMPUTE, gpu=busy(sm_clock_mhz=1100, sm_clock_max_mhz=1980, throttle=["thermal_sw"], temp_c=90)
    ),
    "clocks falling": lambda: trace(
        COMPUTE,
        gpu=busy(
            sm_clock_mhz=lambda i: 1980 - 90 * min(i, 10), sm_clock_max_mhz=1980, throttle=["thermal_hw"], temp_c=91
        ),
        queue_empty=0.05,
        idle={"data": 0.2},
    ),
    "limit": lambda: trace(
        COMPUTE,
        gpu=busy(
            sm_clock_mhz=1200,
            sm_clock_max_mhz=1980,
            power_w=295,
            power_limit_w=300,
            power_limit_default_w=700,
            throttle=["power_cap"],
        ),
    ),
    "brake": lambda: trace(
        COMPUTE, gpu=busy(sm_clock_mhz=900, sm_clock_max_mhz=1980, throttle=["power_brake", "hw_slowdown"])
    ),
    "power limit low no flags": lambda: trace(
        COMPUTE,
        gpu=busy(sm_clock_mhz=800, sm_clock_max_mhz=1980, power_w=200, power_limit_w=200, power_limit_default_w=700),
    ),
    "thermal_hw queue": lambda: trace(
        COMPUTE,
        queue_empty=0.02,
        gpu=busy(
            sm_clock_mhz=1200,
            sm_clock_max_mhz=1980,
            throttle=["thermal_hw", "hw_slowdown"],
            temp_c=93,
            temp_slowdown_c=90,
        ),
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "gpu-bound: powercap": lambda: trace(
        COMPUTE, gpu=busy(throttle=["power_cap"], sm_clock_mhz=1700, sm_clock_max_mhz=1980, power_w=699)
    ),
    "gpu-bound: thermal flag clock fine": lambda: trace(
        COMPUTE, queue_empty=0.02, gpu=busy(sm_clock_mhz=1950, sm_clock_max_mhz=1980, throttle=["thermal_sw"])
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
