"""Faults that were found in use, each named after its symptom."""

from __future__ import annotations

import re

import pytest

from gputop.diagnosis.evidence import gather
from gputop.diagnosis.verdict import judge
from gputop.diagnosis.weigh import MOST_SURE
from gputop.records import AnyRecord, Gpu, GpuProcess
from tests.diagnosis.builder import (
    COMPUTE,
    HOST,
    STARVED,
    T0,
    busy,
    expect,
    low,
    others,
    trace,
    verdict,
    window,
    workers,
)

CPU = {"device": "cpu", "cores_allowed": 2}
NEIGHBOUR = {"cpu_pct": 98.0, "cores": 2, "load1": 3.2}
SELF = {"cpu_pct": 40.0, "main_thread_cpu_pct": 40.0}


def noisy(phases: dict[str, float], wait_pct: float | None = 12.0, **fields: object) -> list[AnyRecord]:
    """A run on a CPU of two cores of which a neighbour uses 1.6."""
    process = SELF | ({} if wait_pct is None else {"main_thread_wait_pct": wait_pct})
    make: dict[str, object] = {"run": CPU, "no_gpu": True, "host": NEIGHBOUR, "process": process}
    return trace(phases, extra=others("ffmpeg", 158.0), **(make | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize("wait_pct", [12.0, None])
def test_a_noisy_neighbour_does_not_outrank_work_after_the_step(wait_pct: float | None) -> None:
    expect("host-work", noisy({"data": 1, "forward": 4, "backward": 5, "optimizer": 1}, wait_pct, ms=27))


def test_a_noisy_neighbour_does_not_outrank_a_checkpoint_of_two_fifths_of_the_wall() -> None:
    saves = {"each": lambda i: {"phases": {"checkpoint": 420 if i % 20 == 19 else 0}}}
    expect("checkpoint", noisy({"data": 2, "forward": 12, "backward": 16, "optimizer": 2}, n=300, **saves))


def test_a_noisy_neighbour_does_not_outrank_a_slow_loader() -> None:
    expect(
        "input-workers", noisy({"data": 47, "forward": 10, "backward": 26, "optimizer": 3}, loader={"num_workers": 0})
    )


def test_a_neighbour_that_really_costs_more_is_named() -> None:
    records = noisy({"data": 1, "forward": 12, "backward": 18, "optimizer": 2}, wait_pct=55.0)
    expect("host-contention", records)
    assert "ffmpeg" in verdict(records).headline


def test_the_share_of_contention_is_time_lost_not_the_neighbours_use() -> None:
    said = verdict(noisy({"data": 1, "forward": 12, "backward": 18, "optimizer": 2}, wait_pct=55.0))
    assert said.share_pct is not None
    assert said.share_pct <= 55.0


def test_own_workers_that_fill_the_cores_are_no_neighbours() -> None:
    process = {"cpu_pct": 60, "main_thread_cpu_pct": 60, "main_thread_wait_pct": 40, "workers": workers(8, 92)}
    said = verdict(
        trace(STARVED, loader={"num_workers": 8}, gpu=low(), host={"cpu_pct": 99, "cores": 8}, process=process)
    )
    assert said.cause in ("input-cpu", "input-oversubscribed")
    assert said.runner_up is None or said.runner_up.cause != "host-contention"


def test_no_workers_and_a_slow_data_set_want_workers_even_while_others_have_the_cores() -> None:
    said = verdict(noisy({"data": 60, "forward": 12, "backward": 20, "optimizer": 4}, loader={"num_workers": 0}))
    assert said.cause == "input-workers"
    assert said.advice[0].do.startswith("num_workers 0 → ")


def test_no_workers_on_the_only_core_is_a_matter_of_cpu() -> None:
    records = trace(
        STARVED, loader={"num_workers": 0}, run={"cores_allowed": 1}, gpu=low(), host={"cpu_pct": 99, "cores": 1}
    )
    expect("input-cpu", records)


def test_a_fetch_that_sleeps_needs_no_free_core() -> None:
    records = trace(
        {"data": 60, "forward": 12, "backward": 20, "optimizer": 4}, loader={"num_workers": 0},
        run={"device": "cpu", "cores_allowed": 1}, no_gpu=True, host={"cpu_pct": 45, "cores": 1},
        host_cpu_ns=36_000_000,
    )  # fmt: skip
    expect("input-workers", records)


@pytest.mark.parametrize(
    "records",
    [
        trace(STARVED, idle={"data": 30}, queue_empty=0.6, loader={"num_workers": 2}, gpu=low(60)),
        trace(STARVED, loader={"num_workers": 0}),
        trace({"data": 1, "forward": 15, "backward": 20}, ms=70, idle={"other": 15}, queue_empty=0.6, gpu=low(60)),
    ],
)
def test_figures_of_one_sentence_fit_together(records: list[AnyRecord]) -> None:
    headline = verdict(records).headline
    part, whole, said = map(float, re.search(r"([\d.]+) of ([\d.]+) ms per step \((\d+) %\)", headline).groups())  # type: ignore[union-attr]
    assert 100 * part / whole == pytest.approx(said, abs=1.5)


def test_a_wait_that_costs_less_than_it_lasts_says_both() -> None:
    said = verdict(trace(STARVED, idle={"data": 30}, queue_empty=0.6, loader={"num_workers": 2}, gpu=low(60)))
    assert re.search(r"costs 3\d % of device time", said.headline)


def test_nothing_is_ever_a_hundred_percent_sure() -> None:
    records = trace(
        STARVED, idle={"data": 58}, queue_empty=0.95, loader={"num_workers": 2}, gpu=low(), n=300,
        host={"cpu_pct": 12, "cores": 32, "iowait_pct": 0, "disk_busy_pct": 1}, ready_batches=0, late_ready=0,
        process={"cpu_pct": 50, "workers": workers(2, 98)},
    )  # fmt: skip
    assert 0.75 < verdict(records).confidence <= MOST_SURE < 0.995


def test_a_rival_of_equal_weight_lowers_the_confidence() -> None:
    alone = trace({"data": 1, "forward": 20, "backward": 25}, ms=90, idle={"other": 40}, queue_empty=0.6)
    beside = trace({"data": 38, "forward": 20, "backward": 25}, ms=127, idle={"other": 40, "data": 36}, queue_empty=0.6)
    sure, torn = verdict(alone), verdict(beside)
    assert torn.runner_up is not None
    assert torn.confidence < 0.75 * sure.confidence


def test_a_refuted_rival_is_not_listed_with_the_whole_wait() -> None:
    records = trace(
        STARVED, loader={"num_workers": 2}, gpu=low(), host={"cpu_pct": 12, "cores": 32},
        process={"cpu_pct": 50, "workers": workers(2, 98)},
    )  # fmt: skip
    said = verdict(records)
    assert said.cause == "input-workers"
    assert said.runner_up is None or (said.runner_up.share_pct or 0) < 0.6 * (said.share_pct or 0)


def test_advice_without_a_device_does_not_speak_of_one() -> None:
    said = verdict(trace({"data": 1, "forward": 4, "backward": 5}, ms=27, run={"device": "cpu"}, no_gpu=True))
    assert said.cause == "host-work"
    assert not any("device" in f"{one.do} {one.why} {one.code}" for one in said.advice)


def test_advice_for_contention_names_only_what_is_there() -> None:
    text = " ".join(
        f"{one.do} {one.code}" for one in verdict(noisy({"forward": 12, "backward": 18}, wait_pct=55.0)).advice
    )
    assert "0-7" not in text
    assert "renice -n 10 -p 99" in text


def test_more_workers_are_never_advised_beyond_what_the_cores_take() -> None:
    records = trace(
        {"data": 300, "forward": 12, "backward": 20, "optimizer": 4}, loader={"num_workers": 2}, gpu=low(10),
        host={"cpu_pct": 60, "cores": 4}, process={"cpu_pct": 30, "workers": workers(2, 98)},
    )  # fmt: skip
    said = verdict(records)
    assert said.cause == "input-workers"
    number = int(re.search(r"num_workers 2 → (\d+)", said.advice[0].do).group(1))  # type: ignore[union-attr]
    assert number <= 4


def test_a_printed_loader_keeps_its_workers() -> None:
    """prefetch_factor or in_order without num_workers is an error, or means nothing."""
    loader = {"num_workers": 6, "batch_size": 32, "in_order": True}
    records = trace(
        {"data": 1, "forward": 30, "backward": 45, "optimizer": 8}, loader=loader, gpu=low(), late_ready=3,
        ready_batches=3, each=lambda i: {"phases": {"data": 700.0 if i % 10 == 0 else 0.5}},
    )  # fmt: skip
    said = verdict(records)
    assert said.cause == "input-slow-sample"
    assert all("num_workers=6" in (advice.code or "") for advice in said.advice)


def test_what_is_set_already_is_not_advised() -> None:
    loader = {"num_workers": 2, "persistent_workers": True}
    records = trace(STARVED, loader=loader, gpu=low(), host={"cpu_pct": 12, "cores": 32})
    assert "persistent_workers=True" not in (verdict(records).advice[0].code or "")


def test_a_harmless_item_on_a_busy_device_is_healthy() -> None:
    records = trace(
        {"data": 1, "forward": 5, "backward": 8, "optimizer": 3, "sync": 70}, sync_count=1, sync_ns=70_000_000,
        idle={"data": 0.2, "other": 0.3}, queue_empty=0.05,
    )  # fmt: skip
    expect("gpu-bound", records)


def test_a_long_data_wait_behind_a_busy_device_is_no_bottleneck() -> None:
    records = trace({"data": 50, "forward": 10, "backward": 20}, idle={"data": 1}, queue_empty=0.05, gpu=busy())
    said = verdict(records)
    assert said.cause == "gpu-bound"
    assert said.speedup_limit is None


def test_full_memory_at_low_use_is_said_and_is_no_verdict() -> None:
    said = verdict(trace(STARVED, loader={"num_workers": 0}, gpu=low(8, mem_used_bytes=78 << 30)))
    assert said.cause == "input-workers"
    assert any("full memory is no sign of work" in notice for notice in said.notices)


def test_another_process_with_memory_on_the_gpu_is_said() -> None:
    listed = [GpuProcess(pid=4242, mem_bytes=20 << 30), GpuProcess(pid=77, mem_bytes=20 << 30, name="jupyter")]
    said = verdict(trace(COMPUTE, gpu=busy(processes=listed)))
    assert said.cause == "gpu-bound"
    assert any("process 77 (jupyter) holds" in notice for notice in said.notices)


def test_simulated_figures_are_never_passed_off_as_real() -> None:
    assert verdict(trace(COMPUTE, gpu=busy(simulated=True))).simulated
    assert verdict(trace(COMPUTE, run={"device": "sim:0", "simulated": True}, gpu=busy())).simulated
    assert verdict(trace(COMPUTE, gpu=busy())).simulated is None


@pytest.mark.parametrize(
    ("records", "clock"),
    [
        (trace(COMPUTE, gpu=busy()), "host"),
        (trace(COMPUTE, idle={"data": 0.2}, device={"forward": 30, "backward": 45}, queue_empty=0.1), "device"),
        (trace(STARVED), "host"),
    ],
)
def test_the_clock_is_said(records: list[AnyRecord], clock: str) -> None:
    assert verdict(records).clock == clock


def test_the_same_trace_judged_at_another_time_says_the_same() -> None:
    early = judge(window(trace(STARVED, loader={"num_workers": 0}, t0=0)))
    late = judge(window(trace(STARVED, loader={"num_workers": 0})))
    assert (early.cause, early.confidence, early.headline) == (late.cause, late.confidence, late.headline)


def test_a_first_step_of_compiling_is_set_apart() -> None:
    records = trace(COMPUTE, n=60, each=lambda i: {"phases": {"forward": 9000 if i == 0 else 30}}, gpu=busy())
    loop = gather(window(records)).loop
    assert loop is not None
    assert loop.max_ms < 200


@pytest.mark.parametrize(
    ("cause", "sample"),
    [
        ("gpu-bound", busy()),
        ("launch-bound", low(22)),
        ("throttled", busy(sm_clock_mhz=1100, sm_clock_max_mhz=1980, throttle=["thermal_sw"])),
    ],
)
def test_a_run_that_does_not_say_its_device_is_judged_by_the_only_gpu(cause: str, sample: dict[str, object]) -> None:
    records = trace(COMPUTE, run={"device": None}, gpu=sample)
    expect(cause, records)
    assert any("assumed to be the only one" in notice for notice in verdict(records).notices)


def test_a_run_that_does_not_say_its_device_is_not_put_on_an_idle_gpu() -> None:
    assert verdict(trace(COMPUTE, run={"device": None}, gpu=low(0))).cause == "unknown"


def test_short_steps_whose_waits_are_as_short_as_a_hand_over_still_wait() -> None:
    phases = {"data": 0.06, "forward": 0.01, "backward": 0.02, "optimizer": 0.005}
    expect("input-workers", trace(phases, n=3000, loader={"num_workers": 2}))


def test_another_gpu_is_only_advised_where_there_is_one() -> None:
    listed = [GpuProcess(pid=4242, sm_pct=50), GpuProcess(pid=77, sm_pct=45, name="python")]
    alone = verdict(trace(COMPUTE, gpu=busy(processes=listed)))
    assert alone.cause == "gpu-contention"
    assert not any("CUDA_VISIBLE_DEVICES" in (one.code or "") for one in alone.advice)
    spare = Gpu(t=T0, host=HOST, gpu_uuid="GPU-2", gpu_index=3, util_pct=1.0)
    records = trace(COMPUTE, run={"gpu_uuid": "GPU-1"}, gpu=busy(processes=listed, gpu_index=0), extra=[spare])
    assert verdict(records).advice[0].code == "CUDA_VISIBLE_DEVICES=3 python train.py"


def test_workers_that_fill_the_cores_finish_out_of_turn_and_no_sample_is_slow() -> None:
    """Two workers and the training thread on two cores: every wait finds the other worker's batch ready."""

    def taking_turns(i: int) -> dict[str, object]:
        return {"phases": {"data": 2 if i % 2 else 20}, "late_ready": 0 if i % 2 else 1, "ready_batches": 1}

    records = trace(
        {"data": 2, "forward": 7, "backward": 12.5, "optimizer": 1.5}, n=400, each=taking_turns, run=CPU, no_gpu=True,
        loader={"num_workers": 2, "in_order": True}, host={"cpu_pct": 98, "cores": 2, "iowait_pct": 0},
        process={"cpu_pct": 60, "main_thread_cpu_pct": 60, "main_thread_wait_pct": 8, "workers": workers(2, 65)},
    )  # fmt: skip
    expect("input-cpu", records)


def test_workers_starved_by_a_neighbour_are_neither_slow_nor_too_few_nor_too_many() -> None:
    """Two workers and a stranger on two cores: the stranger is what holds the run up."""

    def taking_turns(i: int) -> dict[str, object]:
        return {"phases": {"data": 6 if i % 2 else 32}, "late_ready": i % 3 and 1, "ready_batches": 1}

    records = trace(
        {"data": 2, "forward": 10, "backward": 19, "optimizer": 3}, n=400, each=taking_turns, run=CPU, no_gpu=True,
        loader={"num_workers": 2, "in_order": True}, host={"cpu_pct": 100, "cores": 2, "iowait_pct": 0},
        process={"cpu_pct": 40, "main_thread_cpu_pct": 40, "main_thread_wait_pct": 42, "workers": workers(2, 40)},
        extra=others("make", 80),
    )  # fmt: skip
    expect("host-contention", records)
