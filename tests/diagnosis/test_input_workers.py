"""input-workers: traces with it planted, and look-alikes."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import ceil
from typing import Any

import pytest

from gputop.records import AnyRecord
from tests.diagnosis.builder import COMPUTE, STARVED, busy, expect, low, trace, verdict, workers


def one_slow(i: int) -> dict[str, Any]:
    """One batch in ten is late while later ones lie ready."""
    return {"phases": {"data": 400 if i % 10 == 0 else 1}, "late_ready": 5 if i % 10 == 0 else 0, "ready_batches": 5}


CAUSE = "input-workers"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "steps only": lambda: trace(STARVED),
    "steps only, 20": lambda: trace(STARVED, n=20),
    "steps+loader 0": lambda: trace(STARVED, loader={"num_workers": 0}),
    "steps+loader 2+host": lambda: trace(STARVED, loader={"num_workers": 2}, host={"cpu_pct": 20, "cores": 16}),
    "cpu run 0 workers": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4},
        run={"device": "cpu", "cores_allowed": 8},
        no_gpu=True,
        loader={"num_workers": 0},
        host={"cpu_pct": 20, "cores": 8},
        process={"cpu_pct": 110},
    ),
    "cpu run steps only": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4}, run={"device": "cpu"}, loader={"num_workers": 0}
    ),
    "cpu run noisy": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4},
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        loader={"num_workers": 0},
        host={"cpu_pct": 99, "cores": 2},
        process={"cpu_pct": 55, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 15},
    ),
    "gpu idle": lambda: trace(
        STARVED,
        idle={"data": 55},
        queue_empty=0.9,
        loader={"num_workers": 2},
        gpu=low(),
        host={"cpu_pct": 20, "cores": 16},
        process={"cpu_pct": 50, "workers": workers(2, 96)},
    ),
    "one gpu sample": lambda: trace(
        STARVED, loader={"num_workers": 2}, gpu=low(), samples_s=1000, host={"cpu_pct": 20, "cores": 16}
    ),
    "t0=0": lambda: trace(STARVED, loader={"num_workers": 0}, t0=0, n=60),
    "t0=0 long": lambda: trace(STARVED, loader={"num_workers": 0}, t0=0, n=300),
    "no jitter": lambda: trace(STARVED, loader={"num_workers": 0}, jitter=0),
    "gpu util only no host": lambda: trace(STARVED, loader={"num_workers": 1}, gpu={"util_pct": 35}),
    "workers 2 sawtooth": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {"phases": {"data": 2 if i % 2 else 118}},
        loader={"num_workers": 2},
        host={"cpu_pct": 15, "cores": 16},
        gpu=low(38),
    ),
    "4 workers sawtooth": lambda: trace(
        {"data": 1, "forward": 12, "backward": 20, "optimizer": 4},
        each=lambda i: {"phases": {"data": 2 if i % 4 else 230}},
        loader={"num_workers": 4},
        host={"cpu_pct": 25, "cores": 16},
        process={"cpu_pct": 40, "workers": workers(4, 97)},
    ),
    "samples per step none; 5 us jit": lambda: trace(
        {"data": 6, "forward": 1, "backward": 2, "optimizer": 0.5}, loader={"num_workers": 1}, n=3000
    ),
    "10s steps": lambda: trace(
        {"data": 9000, "forward": 1000, "backward": 2000, "optimizer": 100},
        loader={"num_workers": 2},
        n=20,
        host={"cpu_pct": 15, "cores": 32},
        gpu=low(25),
    ),
    "60s steps 8": lambda: trace(
        {"data": 40000, "forward": 8000, "backward": 11000, "optimizer": 1000}, loader={"num_workers": 2}, n=8
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-cpu: steps host process": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        gpu=low(),
        host={"cpu_pct": 97, "cores": 8},
        process={"cpu_pct": 30, "workers": workers(8, 93)},
    ),
    "input-oversubscribed: affinity1": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        run={"cores_allowed": 1, "cores": 96},
        gpu=low(),
        host={"cpu_pct": 2, "cores": 96},
        process={"cpu_pct": 30, "workers": workers(8, 9)},
    ),
    "input-disk: nfs": lambda: trace(
        STARVED,
        loader={"num_workers": 4, "dataset_path_fs": "nfs4"},
        gpu=low(),
        host={"cpu_pct": 10, "cores": 16, "iowait_pct": 3, "disk_busy_pct": 1, "net_recv_bytes_s": 110e6},
        process={"cpu_pct": 30, "workers": workers(4, 9, state="S")},
    ),
    "input-disk: D state": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        gpu=low(),
        process={"cpu_pct": 20, "workers": workers(4, 10, state="D", read_bytes_s=40e6)},
    ),
    "input-transfer: ready": lambda: trace(
        STARVED, ready_batches=6, late_ready=0, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 20, "cores": 16}
    ),
    "input-slow-sample: late": lambda: trace(
        {"h2d": 2, "forward": 12, "backward": 20, "optimizer": 4, "data": 1},
        each=one_slow,
        loader={"num_workers": 8, "in_order": True},
        gpu=low(45),
        host={"cpu_pct": 20, "cores": 16},
    ),
    "gpu-bound: long data, busy": lambda: trace(
        {"data": 50, "forward": 10, "backward": 20, "optimizer": 4}, idle={"data": 1}, queue_empty=0.05, gpu=busy()
    ),
    "host-work: 15 of 20 host clock": lambda: trace(
        {"data": 0.3, "forward": 2, "backward": 2.5, "optimizer": 0.5}, ms=20
    ),
    "evaluation: phase": lambda: trace(COMPUTE, each=lambda i: {"phases": {"eval": 3000 if i % 20 == 19 else 0}}),
    "checkpoint: steps only": lambda: trace(
        COMPUTE, each=lambda i: {"phases": {"checkpoint": 3000 if i % 40 == 39 else 0}}
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def test_the_workers_that_keep_up_follow_from_the_figures_beside_them() -> None:
    """A validation in every 20th step is part of the mean step, but time in which no batch of the loop is due."""
    records = trace(
        {"data": 60, "forward": 4, "backward": 4, "optimizer": 2},
        each=lambda i: {"phases": {"eval": 200}} if i % 20 == 19 else {},
        run={"device": "cpu", "cores_allowed": 32}, loader={"num_workers": 0}, host={"cpu_pct": 4, "cores": 32},
        process={"cpu_pct": 100}, no_gpu=True,
    )  # fmt: skip
    found = verdict(records)
    assert found.cause == CAUSE
    why = found.advice[0].why or ""
    said = re.match(
        r"a batch takes ([\d.]+) ms of one worker; a step without the wait, validation and checkpoints takes "
        r"([\d.]+) ms: (\d+) workers keep up",
        why,
    )
    assert said is not None, why
    assert ceil(float(said[1]) / float(said[2])) == pytest.approx(int(said[3]), abs=1)


def test_workers_that_wait_still_share_the_cores_for_what_they_compute() -> None:
    """Of 64 ms for a batch 14 are computing: two cores make no step shorter than half of what all of that takes."""
    found = verdict(
        trace(
            {"data": 62.5, "forward": 1.3, "backward": 0.6, "optimizer": 0.2},
            n=200,
            each=lambda i: {"host_cpu_ns": 16_000_000},
            run={"device": "cpu", "cores_allowed": 2},
            no_gpu=True,
            loader={"num_workers": 0},
            host={"cpu_pct": 14, "cores": 2},
            process={"cpu_pct": 25, "main_thread_cpu_pct": 25, "main_thread_wait_pct": 1, "tree_cpu_pct": 25},
        )
    )
    assert found.cause == CAUSE
    assert found.speedup_limit == pytest.approx(2 / 0.28, rel=0.05)
    assert found.advice[0].do == "num_workers 0 → 7"
    assert "the cores have room for 7" in (found.advice[0].why or "")
