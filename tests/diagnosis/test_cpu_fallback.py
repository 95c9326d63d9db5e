"""cpu-fallback: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, GPU_BYTES, expect, low, trace

CAUSE = "cpu-fallback"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "device not said, its GPU rests and does not list it": lambda: trace(
        COMPUTE,
        n=200,
        run={"device": None},
        gpu={"util_pct": 0, "mem_used_bytes": 1 << 28, "mem_total_bytes": GPU_BYTES, "processes": []},
        process={"cpu_pct": 780, "main_thread_cpu_pct": 99},
    ),
    "operators, by the cores that the training itself uses": lambda: trace(
        {"data": 1, "forward": 400, "backward": 500, "optimizer": 20},
        n=40,
        gpu=low(3),
        process={"cpu_pct": 620, "main_thread_cpu_pct": 99},
    ),
    "whole": lambda: trace(
        {"data": 1, "forward": 300, "backward": 500, "optimizer": 20},
        n=40,
        run={"device": "cpu"},
        model={"devices": {"cpu": 1000}},
        gpu=low(0, processes=[]),
    ),
    "on_cpu": lambda: trace(COMPUTE, gpu=low(20), model={"devices": {"cuda:0": 1000}, "on_cpu": ["embed.weight"]}),
    "amid forward, at no boundary": lambda: trace(
        {"data": 0.1, "forward": 87, "backward": 2, "optimizer": 1},
        device={"forward": 53, "backward": 34, "optimizer": 1},
        ms=91,
        idle={"data": 0},
        queue_empty=0.0,
        gpu=low(59),
        model={"devices": {"cuda:0": 25_000_000}, "on_cpu": ["operator nms"]},
    ),
    "mostly cpu params": lambda: trace(COMPUTE, gpu=low(10), model={"devices": {"cuda:0": 1000, "cpu": 9000}}),
    "no model": lambda: trace(
        {"data": 1, "forward": 300, "backward": 500, "optimizer": 20}, n=40, run={"device": "cpu"}, gpu=low(0)
    ),
    "util 0, pid absent": lambda: trace(
        {"data": 1, "forward": 300, "backward": 500, "optimizer": 20},
        n=60,
        run={"device": "cpu", "cores_allowed": 16},
        model={"devices": {"cpu": 25_000_000}, "param_count": 25_000_000},
        gpu={"util_pct": 0, "mem_used_bytes": 4 << 20, "mem_total_bytes": GPU_BYTES, "processes": []},
        host={"cpu_pct": 95, "cores": 16},
        process={"cpu_pct": 1500},
    ),
    "op fallback on_cpu inputs": lambda: trace(
        {"data": 1, "forward": 120, "backward": 150, "optimizer": 8},
        n=60,
        queue_empty=0.95,
        gpu=low(6),
        model={"devices": {"cuda:0": 25_000_000}, "on_cpu": ["input[0]"]},
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "host-work: on the CPU beside a GPU, and nearly all of the step is the loop's own work": lambda: trace(
        {"data": 1, "forward": 2, "backward": 3, "optimizer": 1},
        ms=100,
        run={"device": "cpu"},
        gpu=low(0, processes=[]),
    ),
    "input-workers: as many cores, but in the loop's own loading": lambda: trace(
        {"data": 600, "forward": 12, "backward": 20, "optimizer": 4},
        n=40,
        loader={"num_workers": 0},
        gpu=low(6),
        process={"cpu_pct": 620, "main_thread_cpu_pct": 99},
    ),
    "unknown: device not said, a GPU at rest whose list is not known": lambda: trace(
        COMPUTE,
        n=200,
        run={"device": None},
        gpu={"util_pct": 0, "mem_used_bytes": 1 << 28, "mem_total_bytes": GPU_BYTES},
        process={"cpu_pct": 780, "main_thread_cpu_pct": 99},
    ),
    "cpu-bound: plain": lambda: trace(
        COMPUTE,
        run={"device": "cpu", "cores_allowed": 8},
        no_gpu=True,
        host={"cpu_pct": 95, "cores": 8},
        process={"cpu_pct": 760},
    ),
    "launch-bound: util low": lambda: trace(
        COMPUTE,
        gpu=low(22, mem_util_pct=3),
        host={"cpu_pct": 8, "cores": 16},
        process={"cpu_pct": 101, "main_thread_cpu_pct": 100},
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())
