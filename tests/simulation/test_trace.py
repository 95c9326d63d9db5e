"""Traces of the scenarios: real records, zero-sum, the same every time, and as the physics says."""

from __future__ import annotations

import statistics
from itertools import pairwise

import pytest

from gputop import codec
from gputop import records as rec
from gputop.simulation.physics import Physics
from gputop.simulation.scenarios import DEFAULT, SCENARIOS
from gputop.simulation.trace import PID, START_NS, records, trace

VARIANTS = [(name, fixed) for name in SCENARIOS for fixed in (False, True)]


def steps_of(found: list[rec.Record], kind: str = "train") -> list[rec.Step]:
    return [record for record in found if isinstance(record, rec.Step) and record.kind == kind]


@pytest.mark.parametrize(("name", "fixed"), VARIANTS)
def test_every_record_survives_both_codings(name: str, fixed: bool) -> None:
    found = list(records(name, fixed=fixed, seconds=4))
    decoded, faults = codec.unpack_many(codec.pack_many(found))
    assert decoded == found
    assert faults == []
    assert [codec.from_json(codec.to_json(record)) for record in found] == found
    assert {type(record) for record in found} >= {
        rec.Run, rec.Loader, rec.Model, rec.Alive, rec.Step, rec.Gpu, rec.Burst, rec.Host, rec.Process,
    }  # fmt: skip


@pytest.mark.parametrize(("name", "fixed"), VARIANTS)
def test_steps_follow_each_other_and_no_phase_overlaps(name: str, fixed: bool) -> None:
    found = list(records(name, fixed=fixed, seconds=8))
    steps = steps_of(found)
    assert [step.n for step in steps] == list(range(len(steps)))
    for step, later in pairwise(steps):
        assert step.t + step.dur_ns == later.t
    for step in steps + steps_of(found, "eval"):
        assert 0 <= sum(step.phases_ns.values()) <= step.dur_ns
        assert all(ns >= 0 for ns in step.phases_ns.values())
        idle = sum((step.gpu_idle_ns or {}).values())
        assert idle <= step.dur_ns
        assert step.host_cpu_ns is not None
        assert step.host_cpu_ns <= step.dur_ns * 1.01


def test_the_device_time_of_a_run_is_its_host_time() -> None:
    steps = steps_of(list(records("gpu-bound", seconds=10)))[5:]
    device = sum(sum((step.gpu_ns or {}).values()) for step in steps)
    host = sum(step.dur_ns for step in steps)
    assert device == pytest.approx(host, rel=0.03)


def test_the_same_seed_gives_the_same_trace_and_another_another() -> None:
    first = list(records("input-workers", seconds=5, seed=3))
    assert first == list(records("input-workers", seconds=5, seed=3))
    assert steps_of(first) != steps_of(list(records("input-workers", seconds=5, seed=4)))


def test_the_counts_and_rates_agree_with_the_physics() -> None:
    found = list(records("input-workers", seconds=30))
    physics = SCENARIOS["input-workers"].planted
    steps = steps_of(found)[4:]
    expected = physics.input.decode_ns / physics.input.workers
    assert statistics.mean(step.dur_ns for step in steps) == pytest.approx(expected, rel=0.08)
    process = [record for record in found if isinstance(record, rec.Process)][-1]
    assert process.pid == PID
    assert [worker.cpu_pct for worker in process.workers or []] == pytest.approx([100.0] * 4, abs=1.0)
    host = [record for record in found if isinstance(record, rec.Host)][-1]
    busy = (process.cpu_pct or 0) + 400
    assert host.cpu_pct == pytest.approx(busy / 12, abs=2.0)
    assert host.cpu_pct == pytest.approx(statistics.mean(host.per_core_pct or []), abs=0.5)


def test_bursts_cover_the_run_once_and_mean_what_the_gauge_says() -> None:
    found = list(records("input-workers", seconds=30))
    bursts = [record for record in found if isinstance(record, rec.Burst)]
    times = [burst.t + dt for burst in bursts for dt in burst.dt_ns]
    gaps = {round((later - t) / 1e6) for t, later in pairwise(times)}
    assert gaps == {167}
    assert len(times) == pytest.approx(30 * 6, abs=8)
    gauge = statistics.mean(r.util_pct or 0 for r in found if isinstance(r, rec.Gpu))
    fine = statistics.mean(pct for burst in bursts for pct in burst.util_pct)
    assert gauge == pytest.approx(fine, abs=4)
    assert max(pct for burst in bursts for pct in burst.util_pct) > 1.5 * gauge


def test_a_model_on_the_cpu_has_no_device_clock_and_no_process_on_the_device() -> None:
    found = list(records("cpu-fallback", seconds=5))
    run = next(record for record in found if isinstance(record, rec.Run))
    assert (run.device, run.gpu_uuid, run.gpu_visible) == ("cpu", None, 1)
    assert all(step.gpu_ns is None and step.queue_empty is None for step in steps_of(found))
    assert all(gpu.processes == [] and gpu.util_pct == 0 for gpu in found if isinstance(gpu, rec.Gpu))


def test_validation_is_steps_of_its_own_and_eval_of_the_train_step() -> None:
    found = list(records("evaluation", seconds=20))
    validated = [step for step in steps_of(found) if "eval" in step.phases_ns]
    assert [step.n % 20 for step in validated] == [19] * len(validated)
    assert len(validated) >= 2
    inner = [s for s in steps_of(found, "eval") if validated[0].t <= s.t < validated[0].t + validated[0].dur_ns]
    assert len(inner) == 60
    assert validated[0].phases_ns["eval"] == pytest.approx(sum(step.dur_ns for step in inner), rel=0.01)


def test_a_healthy_device_is_never_found_empty_and_a_starved_one_is() -> None:
    healthy = steps_of(list(records("gpu-bound", seconds=15)))[20:]
    starved = steps_of(list(records("launch-bound", seconds=15)))[20:]
    assert statistics.mean(step.queue_empty or 0 for step in healthy) < 0.05
    assert statistics.mean(step.queue_empty or 0 for step in starved) > 0.8


def test_reads_leave_the_device_idle_inside_the_sync() -> None:
    steps = steps_of(list(records("sync", seconds=10)))[5:]
    for step in steps:
        assert step.gpu_idle_ns is not None
        assert step.gpu_idle_ns["sync"] > 0.4 * step.dur_ns
        assert step.sync_count == 1536


def test_pageable_copies_block_the_host_and_pinned_ones_do_not() -> None:
    planted = steps_of(list(records("h2d-pageable", seconds=10)))[5:]
    fixed = steps_of(list(records("h2d-pageable", fixed=True, seconds=10)))[5:]
    share = [statistics.mean(s.phases_ns["h2d"] / s.dur_ns for s in steps) for steps in (planted, fixed)]
    assert share[0] > 0.3
    assert share[1] < 0.02
    assert planted[0].h2d_pageable_bytes == planted[0].h2d_bytes
    assert fixed[0].h2d_pageable_bytes == 0


def test_a_hot_device_lowers_its_clock_and_says_why() -> None:
    gpus = [record for record in records("throttled", seconds=30) if isinstance(record, rec.Gpu)]
    assert gpus[0].sm_clock_mhz == gpus[0].sm_clock_max_mhz
    assert (gpus[-1].sm_clock_mhz or 0) < 0.9 * (gpus[-1].sm_clock_max_mhz or 0)
    assert gpus[-1].throttle == ["thermal_sw"]
    assert gpus[-1].temp_c == pytest.approx(gpus[-1].temp_slowdown_c, abs=4)


def test_speed_shortens_the_steps_and_changes_no_share() -> None:
    slow = steps_of(list(records("host-work", seconds=12)))[5:]
    fast = steps_of(list(records("host-work", seconds=6, speed=2.0)))[5:]
    mean = [statistics.mean(step.dur_ns for step in steps) for steps in (slow, fast)]
    assert mean[0] / mean[1] == pytest.approx(2.0, rel=0.05)
    with pytest.raises(ValueError, match="speed"):
        next(records("host-work", speed=0.0))


def test_a_trace_of_any_physics_starts_when_told_and_names_what_is_unknown() -> None:
    run = next(trace(Physics(), name="mine", seconds=1, start_ns=START_NS + 5))
    assert isinstance(run, rec.Run)
    assert (run.t, run.script, run.simulated) == (START_NS + 5, "demo mine", True)
    with pytest.raises(KeyError):
        next(records("no such scenario"))


def test_the_default_scenario_is_the_one_on_the_readme() -> None:
    assert DEFAULT == "input-workers"
