"""input-disk: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import STARVED, expect, low, trace, workers

CAUSE = "input-disk"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "disk": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        gpu=low(),
        host={"cpu_pct": 15, "cores": 16, "iowait_pct": 30, "disk_busy_pct": 98, "disk_read_bytes_s": 180e6},
        process={"cpu_pct": 30, "workers": workers(4, 12, state="D")},
    ),
    "nfs": lambda: trace(
        STARVED,
        loader={"num_workers": 4, "dataset_path_fs": "nfs4"},
        gpu=low(),
        host={"cpu_pct": 10, "cores": 16, "iowait_pct": 3, "disk_busy_pct": 1, "net_recv_bytes_s": 110e6},
        process={"cpu_pct": 30, "workers": workers(4, 9, state="S")},
    ),
    "iowait only": lambda: trace(
        STARVED, loader={"num_workers": 4}, host={"cpu_pct": 15, "cores": 16, "iowait_pct": 40}
    ),
    "D state": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        gpu=low(),
        process={"cpu_pct": 20, "workers": workers(4, 10, state="D", read_bytes_s=40e6)},
    ),
    "busy only": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        host={"cpu_pct": 10, "cores": 16, "disk_busy_pct": 97, "disk_await_ns": 40_000_000},
        gpu=low(),
    ),
    "0 workers iowait": lambda: trace(
        STARVED,
        loader={"num_workers": 0},
        host={"cpu_pct": 10, "cores": 8, "iowait_pct": 12, "disk_busy_pct": 95},
        gpu=low(),
        process={"cpu_pct": 20, "main_thread_cpu_pct": 20, "state": "D"},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-workers: steps+loader 2+host": lambda: trace(
        STARVED, loader={"num_workers": 2}, host={"cpu_pct": 20, "cores": 16}
    ),
    "input-cpu: no workers listed": lambda: trace(
        STARVED, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 98, "cores": 8, "iowait_pct": 1}
    ),
    "input-workers: 2 sawtooth": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {"phases": {"data": 2 if i % 2 else 118}},
        loader={"num_workers": 2},
        host={"cpu_pct": 15, "cores": 16},
        gpu=low(38),
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
