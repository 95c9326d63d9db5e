"""Recordings: a short one is judged as its trace is; a long one in little memory, with nearly the same figures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.cli import run
from gputop.codec import to_json
from gputop.recording.reader import Recording
from gputop.recording.writer import Writer
from gputop.records import AnyRecord, Event, Loader, Model, Run, Step, Verdict, end_of
from gputop.report import page, reading, summary, words
from gputop.report.gauges import _odd
from gputop.report.judged import Judged
from gputop.report.reading import judge_file
from gputop.report.sampled import judge_recording
from gputop.simulation.trace import records
from tests.report.traces import START, S, job, said


def written(path: Path, trace: list[AnyRecord]) -> Path:
    """A recording of a trace, committed second by second as a recorder does."""
    ordered = sorted(trace, key=end_of)
    writer = Writer(path, now_ns=ordered[0].t)
    due = ordered[0].t + S
    for record in ordered:
        while end_of(record) >= due:
            writer.commit(due)
            due += S
        writer.add(record)
    writer.close(due)
    return path


def minutes_of(scenario: str, seconds: float) -> list[AnyRecord]:
    return list(records(scenario, seconds=seconds))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def trace() -> list[AnyRecord]:
    """Twelve minutes of two ranks, with verdicts of the time."""
    told: list[AnyRecord] = [said("r0", 30, "sync"), said("r0", 400, "cpu-bound")]
    return [*job(2, 720, slow=None), *told]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, trace: list[AnyRecord]) -> Path:
    return written(tmp_path_factory.mktemp("recordings") / "run.gputop", trace)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute and a half, where any recording will do."""
    return written(tmp_path_factory.mktemp("recordings") / "short.gputop", list(job(2, 90, slow=None)))


@pytest.fixture(scope="module")
def exact(file: Path) -> dict[str, Any]:
    judged, _ = judge_file(file)
    return summary.of_trace(judged)


@pytest.fixture(scope="module")
def long(file: Path) -> Judged:
    """The same recording, as one too long to be judged record by record."""
    recording = Recording(file)
    try:
        return judge_recording(recording, recording.info(), str(file))
    finally:
        recording.close()


@pytest.fixture(scope="module")
def sampled(long: Judged) -> dict[str, Any]:
    return summary.of_trace(long)


def test_a_short_recording_says_what_its_trace_says(tmp_path: Path) -> None:
    trace = minutes_of("input-workers", 60)
    lines = tmp_path / "run.jsonl"
    lines.write_bytes(b"".join(to_json(one) + b"\n" for one in trace))
    first, second = (summary.of_trace(judge_file(one)[0]) for one in (lines, written(tmp_path / "run.gputop", trace)))
    first["source"] = second["source"] = ""
    assert first == second
    assert first["runs"][0]["verdict"]["cause"] == "input-workers"


class TestLong:
    """Sums by the minute and windows now and then, against every record."""

    def test_it_says_that_it_was_sampled(self, exact: dict[str, Any], sampled: dict[str, Any]) -> None:
        assert (exact["sampled"], sampled["sampled"]) == (False, True)
        assert 0 < sampled["judgements"] <= 80

    def test_totals_are_the_same(self, exact: dict[str, Any], sampled: dict[str, Any]) -> None:
        for one, other in zip(exact["runs"], sampled["runs"], strict=True):
            assert one["steps"] == other["steps"]
            assert other["steps_per_s"] == pytest.approx(one["steps_per_s"], rel=0.01)
            for phase, pct in one["phases_pct"].items():
                assert pct is None or other["phases_pct"][phase] == pytest.approx(pct, abs=0.01), phase

    def test_percentiles_are_right_within_the_sketchs_error(
        self, exact: dict[str, Any], sampled: dict[str, Any]
    ) -> None:
        for one, other in zip(exact["runs"], sampled["runs"], strict=True):
            for spread in ("step_ms", "steady_ms"):
                for q in ("p50", "p95"):
                    assert other[spread][q] == pytest.approx(one[spread][q], rel=0.011), (spread, q)
            assert other["step_ms"]["max"] == pytest.approx(one["step_ms"]["max"])
            assert other["steady_ms"]["max"] == pytest.approx(one["steady_ms"]["max"], rel=0.02)
            assert other["steady_ms"]["warmup_steps"] == one["steady_ms"]["warmup_steps"]
            assert other["steady_ms"]["epoch_firsts"] == one["steady_ms"]["epoch_firsts"]

    def test_epochs_are_the_same(self, exact: dict[str, Any], sampled: dict[str, Any]) -> None:
        for one, other in zip(exact["runs"], sampled["runs"], strict=True):
            assert [e["steps"] for e in other["epochs"]] == [e["steps"] for e in one["epochs"]]
            assert [e["first_step_ms"] for e in other["epochs"]] == [e["first_step_ms"] for e in one["epochs"]]

    def test_checkpoints_are_counted_to_the_second(self, exact: dict[str, Any], sampled: dict[str, Any]) -> None:
        for one, other in zip(exact["runs"], sampled["runs"], strict=True):
            (mine,), (its,) = one["episodes"], other["episodes"]
            assert its["count"] == mine["count"]
            assert its["period_s"] == pytest.approx(mine["period_s"], abs=1)
            assert its["share_pct"] == pytest.approx(mine["share_pct"], rel=0.01)

    def test_machines_are_about_the_same(self, exact: dict[str, Any], sampled: dict[str, Any]) -> None:
        for one, other in zip(exact["gpus"], sampled["gpus"], strict=True):
            assert other["util_mean_pct"] == pytest.approx(one["util_mean_pct"], rel=0.05)
            for peak in ("util_max_pct", "mem_peak_bytes", "power_max_w"):
                assert other[peak] == one[peak], peak

    def test_the_verdict_is_that_of_every_record(self, exact: dict[str, Any], sampled: dict[str, Any]) -> None:
        for one, other in zip(exact["runs"], sampled["runs"], strict=True):
            assert other["verdict"]["cause"] == one["verdict"]["cause"]

    def test_what_was_said_then_is_there(self, exact: dict[str, Any], sampled: dict[str, Any]) -> None:
        causes = [[segment["cause"] for segment in report["runs"][0]["said"]] for report in (exact, sampled)]
        assert causes == [["sync", "cpu-bound"]] * 2
        assert sampled["runs"][0]["said_differs_pct"] == pytest.approx(exact["runs"][0]["said_differs_pct"], abs=10)

    def test_it_can_be_told_and_drawn(self, long: Judged, sampled: dict[str, Any]) -> None:
        assert "2 ranks" in words.of_report(sampled)
        assert "at evenly spaced moments" in page.of_report(sampled, long.series)
        drawn = long.series.runs["r0"]
        assert len([value for value in drawn.p50 if value is not None]) >= 12
        assert max(value for value in drawn.high if value is not None) > 2000


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, int]:
    """Six minutes held back by the loader, six by the GPU; and when it was said that this changed."""
    name = "sim-input-workers-0"
    first = minutes_of("input-workers", 360)
    start = max(end_of(one) for one in first)
    second = []
    for record in minutes_of("gpu-bound", 360):
        if not isinstance(record, (Run, Loader, Model)):
            owner = {"run_id": name} if "run_id" in record.__struct_fields__ else {}
            second.append(msgspec.structs.replace(record, t=record.t + start - START, **owner))
    told = start + 13 * S
    verdicts = [
        Verdict(t=t, run_id=name, cause=cause, family="input", headline="", confidence=0.9)
        for t, cause in ((START + 15 * S, "input-workers"), (told, "gpu-bound"))
    ]
    path = tmp_path_factory.mktemp("two") / "two.gputop"
    return written(path, [*first, *second, *verdicts]), told


def test_a_change_of_the_verdict_is_found_where_it_was_said(two: tuple[Path, int]) -> None:
    path, told = two
    recording = Recording(path)
    (one,) = summary.of_trace(judge_recording(recording, recording.info(), "two"))["runs"]
    recording.close()
    assert [segment["cause"] for segment in one["timeline"]] == ["input-workers", "gpu-bound"]
    assert one["timeline"][1]["from_ns"] == told
    assert one["said_differs"] == []


def test_a_rare_long_checkpoint_is_found_in_a_long_recording(tmp_path: Path) -> None:
    """Twelve seconds every 46: most windows hold none of them."""
    trace: list[AnyRecord] = [Run(t=START, run_id="a", pid=7, host="box", device="cpu", cores_allowed=8)]
    t = START
    for n in range(800):
        pause = 12 * S if n % 68 == 67 else 0
        phases = {"forward": S // 5, "backward": S // 4, "checkpoint": pause}
        dur = S // 2 + pause
        trace.append(Step(t=t, run_id="a", n=n, dur_ns=dur, phases_ns=phases, loader_id=1, had_backward=True))
        t += dur
    recording = Recording(written(tmp_path / "rare.gputop", trace))
    (one,) = summary.of_trace(judge_recording(recording, recording.info(), "rare"))["runs"]
    recording.close()
    assert one["verdict"]["cause"] == "checkpoint"
    assert one["episodes"][0]["count"] == 11


def test_a_long_trace_in_json_lines_goes_through_a_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trace: list[AnyRecord]
) -> None:
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"".join(to_json(one) + b"\n" for one in sorted(trace, key=end_of)) + b"no record\n")
    monkeypatch.setattr(reading, "LARGE_BYTES", 1000)
    monkeypatch.setattr(reading, "SHORT_STEPS", 100)
    told: list[float] = []
    judged, warnings = judge_file(path, told.append)
    assert judged.sampled
    assert judged.accounts["r0"].steps > 3000
    assert any("skipped" in warning for warning in warnings)
    assert told[-1] == 1.0


def test_progress_only_rises(short: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (10**9, 10):
        monkeypatch.setattr(reading, "SHORT_STEPS", limit)
        told: list[float] = []
        judge_file(short, told.append)
        assert told == sorted(told)
        assert 0 <= told[0] <= told[-1] <= 1


def test_a_recording_of_nothing_has_a_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "empty.gputop", [Event(t=START, kind="clock")])
    assert run(["report", str(path)]) == 0
    assert "no training run" in capsys.readouterr().out
    recording = Recording(path)
    judged = judge_recording(recording, recording.info(), "empty")
    recording.close()
    assert summary.of_trace(judged)["runs"] == []


def test_the_command_reads_recordings(short: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(short), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["steps"] > 400
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("stride", [1, 2, 10, 58, 60, 600])
def test_samples_are_taken_out_of_step_with_what_repeats(stride: int) -> None:
    found = _odd(stride)
    assert found >= stride
    assert found == 1 or all(found % factor for factor in (2, 3, 5))
