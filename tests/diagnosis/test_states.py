"""The states of a run: starting, stalled, idle, unknown, ended."""

from __future__ import annotations

import msgspec
import pytest

from gputop.diagnosis.verdict import Judge, judge, judge_idle
from gputop.records import AnyRecord, Event, Gpu, GpuProcess, Run, Step
from tests.diagnosis.builder import COMPUTE, HOST, MS, PID, RUN_ID, T0, UUID, S, alive, trace, verdict, window


def silence(seconds: int, *, phase: str | None = "data", step_ms: float = 84.0, n: int = 100) -> list[AnyRecord]:
    """A run whose steps stop while its process still answers."""
    scale = step_ms / 84
    steps = trace({name: ms * scale for name, ms in COMPUTE.items()}, n=n)
    end = max(record.t + record.dur_ns for record in steps if isinstance(record, Step))
    return [
        *steps,
        *alive((end - T0) / S, seconds, n, open_phase=phase, open_since_ns=end, stack=["train.py:9 (next)"]),
    ]


def test_no_step_for_a_minute_is_stalled_and_says_where() -> None:
    said = verdict(silence(60))
    assert said.cause == "stalled"
    assert "in data" in said.headline
    assert "train.py:9" in said.headline
    assert said.advice[0].code == "py-spy dump --pid 4242"


def test_a_run_that_hangs_while_its_gpu_reads_busy_is_stalled_all_the_same() -> None:
    spinning = [
        Gpu(t=T0 + second * S, host=HOST, gpu_uuid=UUID, util_pct=100, processes=[GpuProcess(pid=PID, sm_pct=100)])
        for second in range(80)
    ]
    records = [msgspec.structs.replace(one, gpu_uuid=UUID) if isinstance(one, Run) else one for one in silence(60)]
    assert verdict([*records, *spinning]).cause == "stalled"


def test_no_step_for_twenty_seconds_is_not_stalled() -> None:
    assert verdict(silence(21)).cause != "stalled"


def test_long_steps_are_given_twenty_of_them() -> None:
    assert verdict(silence(60, step_ms=10_000, n=8)).cause != "stalled"
    assert verdict(silence(240, step_ms=10_000, n=8)).cause == "stalled"


@pytest.mark.parametrize("phase", ["checkpoint", "eval"])
def test_a_long_checkpoint_or_validation_is_no_stall(phase: str) -> None:
    assert verdict(silence(60, phase=phase)).cause != "stalled"


def test_an_ended_run_is_not_stalled() -> None:
    records = silence(60)
    at = max(record.t for record in records)
    ended = [*records, Event(t=at, kind="exit", run_id=RUN_ID)]
    assert verdict(ended).cause != "stalled"


def test_a_stall_ends_with_the_next_step() -> None:
    steps = silence(60)
    judge_ = Judge()
    last = max(record.t + record.dur_ns for record in steps if isinstance(record, Step))
    assert judge_.update(window(steps, now_ns=last + 50 * S)).cause == "stalled"
    more = Step(t=last, run_id=RUN_ID, n=100, dur_ns=55 * S, phases_ns={"data": 55 * S})
    assert judge_.update(window([*steps, more], now_ns=last + 56 * S)).cause != "stalled"


def test_nothing_trains() -> None:
    said = judge_idle(T0, "box")
    assert (said.cause, said.run_id, said.confidence) == ("idle", "", 1.0)
    assert "box" in said.headline


def test_a_run_that_has_just_begun_shows_the_open_step() -> None:
    records = [*trace(COMPUTE, n=2), *alive(0.2, 1, 2, open_phase="forward", open_since_ns=T0 + 168 * MS)]
    said = verdict(records)
    assert said.cause == "warmup"
    assert said.tentative
    assert "forward" in said.headline


def test_a_run_that_was_just_met_is_given_time_to_tell_its_steps() -> None:
    records = [*trace(COMPUTE, n=0), *alive(-200, 230, 5000)]
    judge_ = Judge()
    said = judge_.update(window(records, now_ns=T0 + 1 * S))
    assert (said.cause, said.tentative) == ("warmup", True)
    assert said.headline.startswith("just met: 5,000 steps so far")
    assert judge_.update(window(records, now_ns=T0 + 9 * S)).cause == "warmup"
    assert judge_.update(window(records, now_ns=T0 + 12 * S)).cause == "unknown"


def test_three_steps_of_a_trace_are_too_few() -> None:
    said = verdict(trace(COMPUTE, n=3))
    assert said.cause == "unknown"
    assert "more than 3 steps" in said.headline


def test_a_run_without_any_step_says_so() -> None:
    said = judge(window(trace(COMPUTE, n=0), now_ns=T0 + S))
    assert said.cause == "unknown"
    assert "no training step" in said.headline


@pytest.mark.parametrize("missing", ["device times", "GPU utilization", "CPU figures", "loader's configuration"])
def test_unknown_says_what_is_missing(missing: str) -> None:
    said = verdict(trace(COMPUTE))
    assert said.cause == "unknown"
    assert missing in said.headline


@pytest.mark.parametrize("util", [None, 50.0])
def test_a_loop_without_any_mark_accuses_nobody(util: float | None) -> None:
    said = verdict(trace({}, ms=100, gpu=None if util is None else {"util_pct": util}))
    assert said.cause == "unknown"
    assert "marks for forward and backward" in said.headline


def test_phases_longer_than_their_steps_lower_the_confidence_and_are_said() -> None:
    sound = trace(COMPUTE, gpu={"util_pct": 97.0})
    odd = [
        Step(t=one.t, run_id=RUN_ID, n=one.n, dur_ns=one.dur_ns // 2, phases_ns=one.phases_ns)
        if isinstance(one, Step)
        else one
        for one in sound
    ]
    assert verdict(odd).confidence < verdict(sound).confidence
    assert any("scaled down" in notice for notice in verdict(odd).notices)


def test_steps_that_never_arrived_lower_the_confidence_and_are_said() -> None:
    sound = trace(COMPUTE, gpu={"util_pct": 97.0})
    holes = [one for one in sound if not isinstance(one, Step) or one.n % 2]
    assert verdict(holes).confidence < verdict(sound).confidence
    assert any("never arrived" in notice for notice in verdict(holes).notices)
