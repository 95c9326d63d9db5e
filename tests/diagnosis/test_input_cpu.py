"""input-cpu: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.records import AnyRecord, Site, SiteSample
from tests.diagnosis.builder import RUN_ID, STARVED, expect, low, trace, verdict, workers

CAUSE = "input-cpu"


def lone(i: int) -> dict[str, Any]:
    """Waits as measured: a handshake with the worker, whose thread gets the interpreter only now and then."""
    waits = (201, 45, 1, 209, 53, 105, 33, 6, 206, 73)
    return {"phases": {"data": waits[i % len(waits)]}, "ready_batches": 0, "late_ready": 1}


PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "eight that never rest, cores not known": lambda: trace(
        STARVED, loader={"num_workers": 8}, gpu=low(), process={"cpu_pct": 60, "workers": workers(8, 95)}
    ),
    "steps host process": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        gpu=low(),
        host={"cpu_pct": 97, "cores": 8},
        process={"cpu_pct": 30, "workers": workers(8, 93)},
    ),
    "no workers listed": lambda: trace(
        STARVED, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 98, "cores": 8, "iowait_pct": 1}
    ),
    "1 core, 0 workers": lambda: trace(
        STARVED, loader={"num_workers": 0}, run={"cores_allowed": 1}, gpu=low(), host={"cpu_pct": 98, "cores": 1}
    ),
    "gpu idle": lambda: trace(
        STARVED,
        idle={"data": 58},
        queue_empty=0.9,
        loader={"num_workers": 8},
        gpu=low(),
        host={"cpu_pct": 97, "cores": 8},
        process={"cpu_pct": 30, "workers": workers(8, 93)},
    ),
    "worker 100 16of16": lambda: trace(
        STARVED,
        loader={"num_workers": 16, "persistent_workers": True, "pin_memory": True},
        run={"cores_allowed": 16, "cores": 16},
        gpu=low(30),
        host={"cpu_pct": 99, "cores": 16, "iowait_pct": 0.2, "user_pct": 93, "system_pct": 5},
        process={"cpu_pct": 45, "main_thread_cpu_pct": 30, "workers": workers(16, 97, state="R")},
    ),
    "quota4": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        run={"cores_allowed": 4, "cores": 64},
        gpu=low(30),
        host={"cpu_pct": 7, "cores": 64},
        process={"cpu_pct": 45, "workers": workers(4, 92)},
    ),
    "cpu_pct incl workers": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        run={"cores_allowed": 8},
        gpu=low(30),
        host={"cpu_pct": 98, "cores": 8},
        process={"cpu_pct": 60, "workers": workers(8, 90)},
    ),
    "a real loop on two cores of which others had one, as it was recorded": lambda: trace(
        {"data": 166, "forward": 8, "backward": 9, "optimizer": 10},
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        loader={"num_workers": 1},
        host={"cpu_pct": 100, "cores": 2},
        process={
            "cpu_pct": 8,
            "main_thread_cpu_pct": 8,
            "main_thread_wait_pct": 8,
            "tree_cpu_pct": 76,
            "workers": workers(1, 68, wait_pct=33),
        },
    ),
    "a lone worker of pure Python on two cores, whose own thread hands one batch over while the next is made": lambda: (
        trace(
            {"data": 82, "forward": 13, "backward": 37, "optimizer": 4},
            each=lone,
            run={"device": "cpu", "cores_allowed": 2},
            no_gpu=True,
            loader={"num_workers": 1, "prefetch_factor": 2, "in_order": True},
            host={"cpu_pct": 75, "cores": 2},
            process={"cpu_pct": 50, "main_thread_cpu_pct": 50, "tree_cpu_pct": 148, "workers": workers(1, 98)},
        )
    ),
    "the same, its batches ready before they are asked for": lambda: trace(
        {"data": 82, "forward": 13, "backward": 37, "optimizer": 4},
        each=lambda i: {**lone(i), "ready_batches": int(i % 4 > 0), "late_ready": 0},
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        loader={"num_workers": 1, "prefetch_factor": 2, "in_order": True},
        host={"cpu_pct": 75, "cores": 2},
        process={"cpu_pct": 50, "main_thread_cpu_pct": 50, "tree_cpu_pct": 148, "workers": workers(1, 98)},
    ),
    "a real loop on one core, as it was recorded: its batches lie ready, it has no core": lambda: trace(
        {"data": 6, "forward": 4, "backward": 11, "optimizer": 21},
        run={"device": "cpu", "cores_allowed": 1},
        no_gpu=True,
        ready_batches=14,
        loader={"num_workers": 8, "persistent_workers": True},
        host={"cpu_pct": 52, "cores": 2},
        process={
            "cpu_pct": 30,
            "main_thread_cpu_pct": 30,
            "main_thread_wait_pct": 62,
            "tree_cpu_pct": 100,
            "workers": workers(8, 9, wait_pct=24),
        },
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-workers: gpu idle": lambda: trace(
        STARVED,
        idle={"data": 55},
        queue_empty=0.9,
        loader={"num_workers": 2},
        gpu=low(),
        host={"cpu_pct": 20, "cores": 16},
        process={"cpu_pct": 50, "workers": workers(2, 96)},
    ),
    "input-workers: cpu run noisy": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4},
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        loader={"num_workers": 0},
        host={"cpu_pct": 99, "cores": 2},
        process={"cpu_pct": 55, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 15},
    ),
    "input-workers: cpu run 0 workers": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4},
        run={"device": "cpu", "cores_allowed": 8},
        no_gpu=True,
        loader={"num_workers": 0},
        host={"cpu_pct": 20, "cores": 8},
        process={"cpu_pct": 110},
    ),
    "input-oversubscribed: 140%": lambda: trace(
        STARVED,
        loader={"num_workers": 8},
        gpu=low(),
        host={"cpu_pct": 98, "cores": 8, "load1": 50},
        process={"cpu_pct": 40, "workers": workers(8, 140, threads=30)},
    ),
    "input-disk: disk": lambda: trace(
        STARVED,
        loader={"num_workers": 4},
        gpu=low(),
        host={"cpu_pct": 15, "cores": 16, "iowait_pct": 30, "disk_busy_pct": 98, "disk_read_bytes_s": 180e6},
        process={"cpu_pct": 30, "workers": workers(4, 12, state="D")},
    ),
    "cpu-bound: with loader": lambda: trace(
        {"data": 1, "forward": 80, "backward": 150, "optimizer": 8},
        run={"device": "cpu", "cores_allowed": 4},
        no_gpu=True,
        loader={"num_workers": 0},
        host={"cpu_pct": 98, "cores": 4},
        process={"cpu_pct": 390, "main_thread_cpu_pct": 98, "main_thread_wait_pct": 1},
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def test_the_line_that_a_sampled_worker_is_found_at_is_quoted() -> None:
    records = PLANTED["steps host process"]()
    sites = [
        SiteSample(phase="worker", site="data.py:9", samples=80),
        SiteSample(phase="data", site="t.py:1", samples=90),
    ]
    last = max(record.t for record in records)
    said = verdict([*records, Site(t=last, run_id=RUN_ID, sites=sites)])
    assert said.cause == CAUSE
    assert "data.py:9" in said.advice[0].do
    assert [one.value for one in said.evidence if one.signal == "a worker's work that is at data.py:9"] == [100.0]


@pytest.mark.parametrize(("data_ms", "cause"), [(17.4, CAUSE), (5.5, CAUSE), (0.9, CAUSE), (13.4, "input-workers")])
def test_batches_made_by_the_training_thread_that_workers_could_not_make_faster(data_ms: float, cause: str) -> None:
    """Real loops on two cores: with a worker they were 0.9 to 1.1 times as fast, with cheaper batches 3 to 13 times."""
    rest = {17.4: 2.0, 5.5: 2.5, 0.9: 1.5, 13.4: 10.0}[data_ms]
    said = verdict(
        trace(
            {"data": data_ms, "forward": 0.3 * rest, "backward": 0.3 * rest, "optimizer": 0.4 * rest},
            n=600,
            run={"device": "cpu", "cores_allowed": 2},
            no_gpu=True,
            loader={"num_workers": 0},
            host={"cpu_pct": 52, "cores": 2},
            process={"cpu_pct": 98, "main_thread_cpu_pct": 97, "main_thread_wait_pct": 2, "tree_cpu_pct": 98},
        )
    )
    assert said.cause == cause
    if cause == CAUSE:
        assert "workers on 2 cores would win little" in said.headline
        assert said.advice[0].do.startswith("do less CPU work per sample")
