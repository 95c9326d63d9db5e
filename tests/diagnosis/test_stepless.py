"""Trainings of which no step is known: the driver's and the processes' figures alone, named with less confidence."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.diagnosis import stepless
from gputop.diagnosis.verdict import judge
from gputop.records import AnyRecord, Burst, GpuProcess, Sampler
from tests.diagnosis.builder import (
    GPU_BYTES,
    HOST,
    PID,
    T0,
    UUID,
    S,
    alive,
    low,
    reported,
    samples,
    trace,
    window,
    workers,
)

SECONDS = 30


def made(
    gpu: dict[str, Any] | None = None,
    host: dict[str, Any] | None = None,
    process: dict[str, Any] | None = None,
    **more: Any,
) -> list[AnyRecord]:
    return trace({}, n=0, **more) + samples(T0, T0 + SECONDS * S, 1.0, gpu, host, process)


def said(records: list[AnyRecord]) -> Any:
    return judge(window(records, now_ns=T0 + SECONDS * S))


def mem(share: float) -> dict[str, int]:
    return {"mem_used_bytes": round(share * GPU_BYTES), "mem_total_bytes": GPU_BYTES}


BOX = {"cores": 32, "cpu_pct": 30.0, "iowait_pct": 1.0}
SHARED = [GpuProcess(pid=PID, sm_pct=50), GpuProcess(pid=77, sm_pct=45, name="other")]

NAMED: list[tuple[str, dict[str, Any]]] = [
    ("input-oversubscribed", {"gpu": low(5), "host": {"cores": 28}, "process": {"workers": workers(8, 140)}}),
    ("input-oversubscribed", {"gpu": low(10), "host": {"cores": 8, "cpu_pct": 100},
                              "process": {"workers": workers(32, 23), "main_thread_cpu_pct": 10}}),
    ("input-oversubscribed", {"gpu": low(10), "host": {"cores": 64, "cpu_pct": 2}, "run": {"cores_allowed": 1},
                              "process": {"workers": workers(16, 6), "main_thread_cpu_pct": 6}}),
    ("input-workers", {"gpu": low(20), "host": BOX, "process": {"workers": workers(2, 97)}}),
    ("input-workers", {"gpu": low(20), "host": BOX, "loader": {"num_workers": 0},
                       "process": {"main_thread_cpu_pct": 99}}),
    ("input-cpu", {"gpu": low(30), "host": {"cores": 8, "cpu_pct": 99}, "process": {"workers": workers(8, 94)}}),
    ("input-cpu", {"gpu": low(14), "host": {"cores": 64, "cpu_pct": 12.5, "iowait_pct": 0.2},
                   "process": {"workers": workers(8, 94), "main_thread_cpu_pct": 5, "cpu_pct": 6, "cores_allowed": 8}}),
    ("input-disk", {"gpu": low(8), "host": {"cores": 8, "iowait_pct": 35, "disk_busy_pct": 99},
                    "process": {"workers": workers(4, 12), "main_thread_cpu_pct": 5}}),
    ("input-disk", {"gpu": low(8), "loader": {"num_workers": 8, "dataset_path_fs": "nfs4"},
                    "process": {"workers": workers(8, 10), "main_thread_cpu_pct": 5}}),
    ("host-work", {"gpu": low() | {"util_pct": lambda i: (0, 0, 100, 100)[i % 4]},
                   "process": {"main_thread_cpu_pct": 100}}),
    ("launch-bound", {"gpu": low(20, mem_util_pct=1), "process": {"main_thread_cpu_pct": 100}}),
    ("sync", {"gpu": low(8, **mem(0.95)), "process": {"main_thread_cpu_pct": 100}}),
    ("small-model", {"gpu": low(4, **mem(0.01), power_w=60), "process": {"main_thread_cpu_pct": 60}}),
    ("memory-pressure", {"gpu": low(20, **mem(1.0)), "process": {"main_thread_cpu_pct": 12}}),
    ("host-contention", {"gpu": low(30), "host": {"cores": 8, "cpu_pct": 100},
                         "process": {"main_thread_cpu_pct": 60, "cpu_pct": 100}}),
    ("throttled", {"gpu": low(100, sm_clock_mhz=139, sm_clock_max_mhz=1404, power_w=7)}),
    ("throttled", {"gpu": low(100, temp_c=84, power_w=lambda i: 250 - 4 * i)}),
    ("gpu-contention", {"gpu": low(99, processes=SHARED)}),
    ("comm-bound", {"gpu": low(100, power_w=77, power_limit_w=300), "run": {"world_size": 4}}),
    ("gpu-bound", {"gpu": low(98, power_w=620), "process": {"main_thread_cpu_pct": 100}}),
    ("gpu-bound", {"gpu": low(98, power_w=695, throttle=["power_cap"], sm_clock_mhz=1700, sm_clock_max_mhz=1980)}),
]  # fmt: skip
"""What the figures show, and the cause that they speak for."""


@pytest.mark.parametrize(("cause", "figures"), NAMED)
def test_the_driver_and_the_processes_alone(cause: str, figures: dict[str, Any]) -> None:
    verdict = said(made(**figures))
    assert verdict.cause == cause, (verdict.headline, verdict.confidence, verdict.runner_up)
    assert 0.4 <= verdict.confidence <= stepless.TRUST
    assert verdict.clock == "sampled"
    assert stepless.NOTICE in verdict.notices
    assert verdict.advice
    assert reported(made(**figures)).cause == cause


THIN: dict[str, dict[str, Any]] = {
    "utilization alone": {"gpu": {"util_pct": 3.0}},
    "one reading beside it": {"gpu": {"util_pct": 3.0}, "loader": {"batch_size": 2}},
    "no utilization": {"gpu": mem(0.99), "process": {"main_thread_cpu_pct": 100}},
    "everything rests, and nothing says why": {"gpu": low(10), "process": {"main_thread_cpu_pct": 5}},
}  # fmt: skip


@pytest.mark.parametrize("name", THIN)
def test_thin_evidence_is_unknown(name: str) -> None:
    verdict = said(made(**THIN[name]))
    assert verdict.cause == "unknown"
    assert "missing" in verdict.headline


def test_full_cores_hold_nobody_up_who_runs_all_the_time() -> None:
    others = {"cores": 8, "cpu_pct": 100}
    assert said(made(low(30), others, {"main_thread_cpu_pct": 60, "cpu_pct": 100})).cause == "host-contention"
    assert said(made(low(30), others, {"main_thread_cpu_pct": 99, "cpu_pct": 100})).cause != "host-contention"


def test_a_few_seconds_are_enough_where_the_driver_tells_its_own_samples() -> None:
    few = {"gpu": low(20, mem_util_pct=1), "process": {"main_thread_cpu_pct": 100}}
    start = trace({}, n=0) + samples(T0, T0 + 3 * S, 1.0, few["gpu"], None, few["process"])
    fine = [Burst(t=T0 + i * S, host=HOST, gpu_uuid=UUID, dt_ns=[0] * 40, util_pct=[20.0] * 40) for i in range(3)]
    assert judge(window(start, now_ns=T0 + 3 * S)).cause == "unknown"
    assert judge(window(start + fine, now_ns=T0 + 3 * S)).cause == "launch-bound"


def test_a_process_at_rest_is_idle_and_no_small_model() -> None:
    resting = made(low(0, **mem(0.01), power_w=60), process={"main_thread_cpu_pct": 0.2, "cpu_pct": 0.3})
    verdict = said(resting)
    assert verdict.cause == "idle"
    assert verdict.confidence >= 0.4
    assert reported(resting).cause == "idle"


def test_a_gpu_that_nothing_runs_on_beside_busy_cores_is_a_training_on_the_cpu() -> None:
    gpu = low(0, **mem(0.01), power_w=60, processes=[])
    found = said(made(gpu, process={"main_thread_cpu_pct": 99, "cpu_pct": 790}, run={"device": None}))
    assert found.cause == "cpu-fallback"


def test_memory_decides_between_two_runs_of_the_same_low_utilization() -> None:
    full = said(made(low(8, **mem(0.95)), process={"main_thread_cpu_pct": 100}))
    empty = said(made(low(8, **mem(0.01), power_w=60), process={"main_thread_cpu_pct": 100}))
    assert full.cause == "sync"
    assert empty.cause == "small-model"


def test_memory_that_the_framework_reserves_is_no_sign_of_a_model() -> None:
    figures = {"gpu": low(3.5, **mem(0.9)), "model": {"param_count": 1378}, "loader": {"batch_size": 16}}
    assert said(made(**figures, run={"framework": "tensorflow"})).cause == "small-model"


def test_a_model_on_the_cpu_beside_a_gpu() -> None:
    records = made(
        low(0, processes=[]), process={"main_thread_cpu_pct": 780}, run={"device": "cpu"},
        model={"devices": {"cpu": 1000}},
        extra=[Sampler(t=T0, host=HOST, backend="nvml", state="ok", devices=1)],
    )  # fmt: skip
    assert said(records).cause == "cpu-fallback"


def test_a_publisher_that_has_not_told_a_step_yet_is_left_to_speak() -> None:
    records = made(low(0), process={"main_thread_cpu_pct": 100}, host=BOX, extra=alive(0, SECONDS, steps=0))
    assert said(records).cause == "warmup"


def test_bursts_show_the_swings_that_a_mean_hides() -> None:
    bursts = [
        Burst(t=T0 + i * S, host=HOST, gpu_uuid=UUID, dt_ns=[0, S // 4, S // 2], util_pct=[0, 100, 0])
        for i in range(SECONDS)
    ]
    records = made(low(30), process={"main_thread_cpu_pct": 100}, extra=bursts)
    assert said(records).cause == "host-work"


def test_a_verdict_without_steps_follows_what_changes() -> None:
    def util(i: int) -> float:
        return 98.0 if i < 60 else 5.0

    figures = low(98, **mem(0.5)) | {"util_pct": util}, None, {"main_thread_cpu_pct": 100}
    records = trace({}, n=0) + samples(T0, T0 + 200 * S, 1.0, *figures)
    assert reported(records).cause == "launch-bound"
