"""host-work: traces with it planted, and look-alikes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.diagnosis.evidence import gather
from gputop.records import AnyRecord, Site, SiteSample, Verdict
from tests.diagnosis.builder import (
    COMPUTE,
    MS,
    READS,
    RUN_ID,
    SITES,
    T0,
    S,
    busy,
    event,
    expect,
    low,
    others,
    trace,
    verdict,
    window,
)

CAUSE = "host-work"

PLANTED: dict[str, Callable[[], list[AnyRecord]]] = {
    "long every ten steps, with no events around it": lambda: trace(
        {"data": 0.1, "forward": 30, "backward": 46, "optimizer": 1},
        device={"forward": 25, "backward": 51, "optimizer": 2},
        idle={"data": 0},
        each=lambda i: {"other_ms": 1000 if i % 10 == 5 else 0},
        queue_empty=0.0,
        gpu=low(43),
    ),
    "other steps only": lambda: trace({"data": 1, "forward": 15, "backward": 20, "optimizer": 4}, ms=70),
    "other util": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4},
        ms=70,
        gpu=low(55),
        process={"cpu_pct": 100, "main_thread_cpu_pct": 99},
    ),
    "idle other": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4},
        ms=70,
        idle={"other": 28, "data": 0.2},
        queue_empty=0.5,
    ),
    "named": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4, "logging": 30}, idle={"logging": 28}
    ),
    "every 10": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4},
        each=lambda i: {"phases": {"metrics": 400 if i % 10 == 9 else 0}},
        gpu=low(50),
    ),
    "cpu": lambda: trace(
        {"data": 1, "forward": 5, "backward": 6, "optimizer": 1}, ms=28, run={"device": "cpu"}, no_gpu=True
    ),
    "cpu noisy": lambda: trace(
        {"data": 1, "forward": 5, "backward": 6, "optimizer": 1},
        ms=28,
        run={"device": "cpu", "cores_allowed": 2},
        no_gpu=True,
        host={"cpu_pct": 99, "cores": 2},
        process={"cpu_pct": 55, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 20},
        extra=[],
    ),
    "workers there": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4},
        ms=70,
        loader={"num_workers": 4},
        gpu=low(50),
        host={"cpu_pct": 15, "cores": 16},
        process={"cpu_pct": 100, "main_thread_cpu_pct": 97},
    ),
    "15 of 20 host clock": lambda: trace({"data": 0.3, "forward": 2, "backward": 2.5, "optimizer": 0.5}, ms=20),
    "site": lambda: trace(
        {"data": 1, "forward": 15, "backward": 20, "optimizer": 4},
        ms=70,
        gpu=low(55),
        extra=[
            Site(t=T0 + i * S, run_id=RUN_ID, sites=[SiteSample(phase="other", site="train.py:77", samples=9)])
            for i in range(8)
        ],
    ),
}
"""Traces with this cause planted."""

LOOK_ALIKES: dict[str, Callable[[], list[AnyRecord]]] = {
    "input-workers: cpu run steps only": lambda: trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4}, run={"device": "cpu"}, loader={"num_workers": 0}
    ),
    "sync: idle other": lambda: trace(
        READS, ms=100, sync_count=20, sync_ns=35 * MS, sync_sites=SITES, idle={"other": 30}, queue_empty=0.9
    ),
    "launch-bound: util low": lambda: trace(
        COMPUTE,
        gpu=low(22, mem_util_pct=3),
        host={"cpu_pct": 8, "cores": 16},
        process={"cpu_pct": 101, "main_thread_cpu_pct": 100},
    ),
    "evaluation: phase cpu": lambda: trace(
        COMPUTE, each=lambda i: {"phases": {"eval": 3000 if i % 20 == 19 else 0}}, run={"device": "cpu"}
    ),
    "checkpoint: cpu": lambda: trace(
        COMPUTE,
        each=lambda i: {"phases": {"checkpoint": 2500 if i % 40 == 39 else 0}},
        n=200,
        run={"device": "cpu"},
        no_gpu=True,
    ),
    "gpu-bound: accum": lambda: trace(
        {"data": 1, "forward": 30, "backward": 45},
        each=lambda i: {"optimizer_step": i % 8 == 7, "phases": {"optimizer": 10 if i % 8 == 7 else 0}},
        gpu=busy(),
        queue_empty=0.05,
    ),
    "host-contention: wait": lambda: trace(
        {"data": 1, "forward": 30, "backward": 50, "optimizer": 5},
        run={"device": "cpu"},
        no_gpu=True,
        host={"cpu_pct": 99, "cores": 8, "load1": 20},
        process={"cpu_pct": 300, "main_thread_cpu_pct": 55, "main_thread_wait_pct": 42},
        extra=others("ffmpeg", 480),
    ),
}
"""Traces that look like it, named after what they are."""


@pytest.mark.parametrize("name", PLANTED)
def test_planted(name: str) -> None:
    expect(CAUSE, PLANTED[name]())


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alike(name: str) -> None:
    expect(name.partition(":")[0], LOOK_ALIKES[name]())


def collected(every: int, ms: float, **fields: Any) -> Verdict:
    """A pause of the garbage collector every so many steps, within forward."""
    length = sum(COMPUTE.values())
    pauses = [i for i in range(120) if i % every == every - 1]
    return verdict(
        trace(
            COMPUTE,
            each=lambda i: {"phases": {"forward": COMPUTE["forward"] + (ms if i in pauses else 0)}},
            jitter=0,
            extra=[event("gc", i * length + pauses.index(i) * ms + 5, ms) for i in pauses],
            **fields,
        )
    )


def test_pauses_of_the_garbage_collector_are_named_with_their_beat_and_price() -> None:
    said = collected(10, 300, gpu=low(60))
    assert said.cause == CAUSE
    assert "garbage collector stops the loop for 300 ms" in said.headline
    assert "every 10 steps" in said.headline
    assert said.speedup_limit == pytest.approx(1 + 30 / sum(COMPUTE.values()), rel=0.1)
    assert "gc.freeze" in (said.advice[0].code or "")


def test_pauses_that_a_busy_device_hides_are_no_fault() -> None:
    assert collected(10, 300, gpu=busy()).cause == "gpu-bound"


def between(in_torch: int, samples: int = 14, **fields: Any) -> Verdict:
    """A loop whose forward is mostly a line of its own; `in_torch`: samples at the model, of four a second."""
    found = [
        SiteSample(phase="forward", site="train.py:7", samples=samples, in_torch=0),
        SiteSample(phase="forward", site="train.py:9", samples=4, in_torch=in_torch),
    ]
    seen = [Site(t=T0 + second * S, run_id=RUN_ID, sites=found) for second in range(12)]
    phases = {"data": 1, "forward": 22, "backward": 6, "optimizer": 2}
    return verdict(trace(phases, n=400, extra=seen, **({"model": {"name": "Net"}} | fields)))


def test_work_between_the_batch_and_the_model_is_told_from_forward_by_stack_samples() -> None:
    for where in ({"run": {"device": "cpu"}, "no_gpu": True}, {"gpu": low(30)}):
        said = between(4, **where)
        assert said.cause == CAUSE
        assert "beside the model" in said.headline
        assert "train.py:7" in said.headline
        assert said.speedup_limit == pytest.approx(31 / (31 - 22 * 14 / 18), rel=0.1)


def test_what_looks_like_work_beside_the_model_is_not_always() -> None:
    cpu: dict[str, Any] = {"run": {"device": "cpu"}, "no_gpu": True}
    assert between(0, **cpu).cause == "cpu-bound"  # nothing of torch's is ever open: operators on bare tensors
    assert between(4, **cpu, model=None).cause == "cpu-bound"  # no module is known
    assert between(4, samples=0, **cpu).cause == "cpu-bound"
    assert between(4, gpu=busy()).cause == "gpu-bound"


def made_in_the_loop(other_ms: float) -> list[AnyRecord]:
    """A loop over a generator: nothing marks the batch, so its making counts as forward, and is found in no phase."""
    found = [
        SiteSample(phase="other", site="train.py:5", samples=9, in_torch=0),
        SiteSample(phase="other", site="train.py:12", samples=4, in_torch=4),
    ]
    return trace(
        {"forward": 4.0, "backward": 0.8, "optimizer": 2.4},
        ms=7.2 + other_ms,
        n=1500,
        had_backward=True,
        extra=[Site(t=T0 + second * S, run_id=RUN_ID, sites=found) for second in range(10)],
        model={"name": "Net"},
        run={"device": "cpu"},
        no_gpu=True,
    )


def test_batches_made_in_a_loop_without_a_loader_are_work_of_the_loop() -> None:
    """A real loop that was called cpu-bound, and was 2.9 times as fast with batches made beforehand."""
    said = verdict(made_in_the_loop(0))
    assert said.cause == CAUSE
    assert "train.py:5" in said.headline
    assert "DataLoader's workers" in said.advice[0].do


def test_work_after_the_update_is_not_taken_for_work_before_the_model() -> None:
    loops = [gather(window(made_in_the_loop(other_ms))).loop for other_ms in (0.5, 4)]
    assert [loop.beside > 0 for loop in loops if loop is not None] == [True, False]


def with_threads(process: dict[str, Any], **fields: Any) -> Verdict:
    """A loop on a CPU whose training thread hardly runs, as it was recorded, or with other figures of its process."""
    return verdict(
        trace(
            {"data": 2.0, "forward": 3.2, "backward": 2.2, "optimizer": 4.5, "other": 0.1},
            n=900,
            run={"device": "cpu"} | fields.pop("run", {}),
            no_gpu=True,
            loader={"num_workers": 0},
            host={"cpu_pct": 100, "cores": 2},
            process={"main_thread_cpu_pct": 16, "main_thread_wait_pct": 10, "cpu_pct": 79} | process,
            **fields,
        )
    )


def test_a_thread_that_never_rests_takes_the_interpreter_from_the_loop() -> None:
    """A real loop beside a thread of metrics: 5.5 times as fast without, and it was called cpu-bound."""
    said = with_threads({})
    assert said.cause == CAUSE
    assert "another thread of this process" in said.headline
    assert said.speedup_limit is not None
    assert 3 < said.speedup_limit < 5.5


def test_a_training_thread_that_runs_or_waits_for_something_else_is_not_held_up_by_a_thread() -> None:
    assert with_threads({"main_thread_cpu_pct": 78}).cause == "cpu-bound"  # operators with a pool of threads
    assert with_threads({"cpu_pct": 20}).cause == "cpu-bound"  # it waits, and nobody works
    pool = with_threads({"cpu_pct": 172, "threads": 67})  # more than one core's worth is no Python
    assert pool.cause == "cpu-bound"
    assert pool.advice[0].code is not None
    assert "set_num_threads(2)" in pool.advice[0].code
    assert "set_num_threads" not in (with_threads({"cpu_pct": 172, "threads": 7}).advice[0].code or "")
    assert "thread of this process" not in with_threads({}, run={"world_size": 2, "rank": 0}).headline
