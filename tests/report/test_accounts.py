"""What a report sums up: percentiles without warm-up, epochs, episodes, GPUs, what was said then, ranks of a job."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gputop.records import Event, Fold, Gpu, Run, Step
from gputop.report import hindsight, summary
from gputop.report.hindsight import Difference
from gputop.report.jobs import jobs
from gputop.report.judged import judge_trace
from gputop.view import Segment
from tests.report.traces import MS, START, S, alone, job, said


def report(records: Any) -> dict[str, Any]:
    return summary.of_trace(judge_trace(records, "x"))


def run(records: Any) -> dict[str, Any]:
    one: dict[str, Any] = report(records)["runs"][0]
    return one


def steps(lengths_ms: list[float], **more: Any) -> list[Step]:
    """Steps of these lengths, one after the other."""
    out, t = [], START
    for n, length in enumerate(lengths_ms):
        ns = round(length * MS)
        out.append(Step(t=t, run_id="a", n=n, dur_ns=ns, phases_ns={"data": ns // 10}, loader_id=1, had_backward=True))
        t += ns
    return [msgspec.structs.replace(step, **{k: v(step) for k, v in more.items()}) for step in out]


HEAD = Run(t=START, run_id="a", pid=7, host="box", device="cpu", script="train.py", cores_allowed=8)


class TestPercentiles:
    """Warm-up and the first step of an epoch are set apart, never averaged in."""

    def test_warm_up_is_left_out_of_the_steady_steps_and_kept_in_all(self) -> None:
        figures = run([HEAD, *steps([4000.0, 900.0] + [100.0] * 200)])
        assert figures["step_ms"]["max"] == pytest.approx(4000)
        assert figures["steady_ms"]["max"] == pytest.approx(100)
        assert figures["steady_ms"]["warmup_steps"] == 2
        assert figures["steady_ms"]["steps"] == 200

    def test_the_first_step_of_a_later_epoch_is_left_out(self) -> None:
        trace = steps(
            [100.0] * 40 + [700.0] + [100.0] * 39,
            epoch=lambda step: step.n // 40, first_of_epoch=lambda step: step.n % 40 == 0 or None,
        )  # fmt: skip
        figures = run([HEAD, *trace])
        assert figures["steady_ms"]["max"] == pytest.approx(100)
        assert figures["steady_ms"]["epoch_firsts"] == 1

    def test_percentiles_are_in_order(self) -> None:
        figures = run([HEAD, *steps([100 + 7 * n % 500 / 10 for n in range(500)])])
        for spread in (figures["step_ms"], figures["steady_ms"]):
            assert spread["p50"] < spread["p95"] < spread["p99"] < spread["max"]

    def test_steps_known_only_as_a_sum_have_no_percentiles_but_a_longest(self) -> None:
        folds = [
            Fold(t=START + n * S, run_id="a", steps=50, dur_ns=S, phases_ns={"data": S // 2}, max_ns=90 * MS, min_ns=MS)
            for n in range(30)
        ]
        figures = run([HEAD, *folds])
        assert figures["steps"] == 1500
        assert figures["step_ms"] == {"p50": None, "p95": None, "p99": None, "max": pytest.approx(90)}
        assert figures["phases_pct"]["data"] == pytest.approx(50)


class TestEpochs:
    """Length, speed, and what starting one costs."""

    def test_each_epoch_with_its_first_step(self) -> None:
        trace = steps(
            ([500.0] + [100.0] * 9) * 3,
            epoch=lambda step: step.n // 10, first_of_epoch=lambda step: step.n % 10 == 0 or None,
        )  # fmt: skip
        figures = run([HEAD, *trace])
        assert [one["epoch"] for one in figures["epochs"]] == [0, 1, 2]
        assert [one["steps"] for one in figures["epochs"]] == [10, 10, 10]
        assert all(one["first_step_ms"] == pytest.approx(500) for one in figures["epochs"])
        assert figures["epochs"][0]["steps_per_s"] == pytest.approx(10 / 1.4)
        assert figures["epochs"][0]["to_ns"] == figures["epochs"][1]["from_ns"]

    def test_a_trace_that_knows_no_epochs_has_none(self) -> None:
        assert run([HEAD, *steps([100.0] * 30)])["epochs"] == []

    def test_of_very_many_the_first_and_the_last_are_listed(self) -> None:
        trace = steps(
            [10.0] * 2000, epoch=lambda step: step.n // 2, first_of_epoch=lambda step: step.n % 2 == 0 or None
        )
        figures = run([HEAD, *trace])
        assert figures["epochs_total"] == 1000
        assert len(figures["epochs"]) == summary.MAX_EPOCHS
        assert [figures["epochs"][0]["epoch"], figures["epochs"][-1]["epoch"]] == [0, 999]


class TestEpisodes:
    """How many, how far apart, how long, which share."""

    def test_checkpoints_marked_in_their_steps(self) -> None:
        trace = steps([100.0] * 200)
        trace = [
            msgspec.structs.replace(step, dur_ns=step.dur_ns + S, phases_ns={"checkpoint": S})
            if step.n % 50 == 49
            else step
            for step in trace
        ]
        (one,) = run([HEAD, *trace])["episodes"]
        assert (one["kind"], one["count"], one["period_steps"]) == ("checkpoint", 4, 50)
        assert one["mean_ms"] == pytest.approx(1000)
        assert one["share_pct"] == pytest.approx(100 * 4 / 24)

    def test_evaluations_in_a_loop_of_their_own(self) -> None:
        trace: list[Any] = [HEAD]
        t = START
        for n in range(60):
            trace.append(Step(t=t, run_id="a", n=n, dur_ns=S // 10, phases_ns={}, loader_id=1, had_backward=True))
            t += S // 10
            if n % 20 == 19:
                for k in range(5):
                    trace.append(Step(t=t, run_id="a", n=k, dur_ns=S // 10, phases_ns={}, loader_id=2, kind="eval"))
                    t += S // 10
        (one,) = run(trace)["episodes"]
        assert (one["kind"], one["count"]) == ("eval", 3)
        assert one["mean_ms"] == pytest.approx(500)

    def test_collections_told_by_events(self) -> None:
        events = [Event(t=START + n * S, kind="gc", run_id="a", dur_ns=50 * MS) for n in range(1, 4)]
        (one,) = run([HEAD, *steps([100.0] * 50), *events])["episodes"]
        assert (one["kind"], one["count"], one["period_s"]) == ("gc", 3, pytest.approx(1.0))


class TestMachine:
    """All samples count, not only the last."""

    def test_a_gpu_over_the_whole_trace(self) -> None:
        samples = [
            Gpu(
                t=START + n * S, host="box", gpu_uuid="g", util_pct=float(n % 2 * 80), mem_used_bytes=(10 + n) * 2**30,
                mem_total_bytes=80 * 2**30, power_w=100.0 + n, temp_c=50.0 + n % 7,
                throttle=["thermal_hw"] if n % 4 == 1 else [],
            )
            for n in range(40)
        ]  # fmt: skip
        (gpu,) = report([HEAD, *steps([100.0] * 400), *samples])["gpus"]
        assert gpu["samples"] == 40
        assert (gpu["util_mean_pct"], gpu["util_max_pct"]) == (40, 80)
        assert gpu["mem_peak_bytes"] == 49 * 2**30
        assert gpu["power_max_w"] == 139
        assert gpu["temp_max_c"] == 56
        assert gpu["throttled_pct"] == pytest.approx(50), "of the busy samples"

    def test_two_machines_are_told_apart(self) -> None:
        first, second = list(job(2, 30, slow=None)), list(job(2, 30, slow=None, host="other"))
        hosts = report(sorted([*first, *second], key=lambda one: one.t))["hosts"]
        assert [one["host"] for one in hosts] == ["box", "other"]


class TestHindsight:
    """Verdicts of the time against today's."""

    def test_what_was_said_holds_until_something_else_was(self) -> None:
        assert hindsight.segments([(1, "a"), (5, "a"), (9, "b")], 20) == (Segment(1, 9, "a"), Segment(9, 20, "b"))

    def test_only_longer_disagreements_count_and_silence_is_none(self) -> None:
        then = (Segment(0, 100 * S, "a"), Segment(100 * S, 200 * S, "b"))
        now = (Segment(0, 5 * S, "warmup"), Segment(5 * S, 95 * S, "a"), Segment(95 * S, 200 * S, "b"))
        assert hindsight.differences(then, now) == ()
        now = (Segment(0, 60 * S, "a"), Segment(60 * S, 200 * S, "b"))
        found = hindsight.differences(then, now)
        assert found == (Difference(60 * S, 100 * S, "a", "b"),)
        assert hindsight.share_pct(found, now) == pytest.approx(20)

    def test_a_trace_without_verdicts_differs_from_nothing(self) -> None:
        figures = run(alone())
        assert figures["said"] == []
        assert figures["said_differs_pct"] is None

    def test_recorded_verdicts_are_in_the_report(self) -> None:
        figures = run(sorted([*alone(600), said("a", 12, "sync")], key=lambda one: one.t))
        assert [one["cause"] for one in figures["said"]] == ["sync"]
        assert figures["said_differs"][0]["said"] == "sync"
        assert figures["said_differs_pct"] > 50


class TestJobs:
    """Ranks of one launch are one job."""

    def test_the_odd_rank_is_named(self) -> None:
        (found,) = jobs(report(sorted(job(seconds=60), key=lambda one: one.t))["runs"])
        assert len(found.run_ids) == 8
        (odd,) = found.outliers
        assert odd.rank == 5
        assert "waits for data" in odd.why

    def test_a_job_launched_again_is_another_job(self) -> None:
        runs = [{**stub(rank), "run_id": f"{turn}{rank}"} for turn in "ab" for rank in range(2)]
        assert [one.run_ids for one in jobs(runs)] == [("a0", "a1"), ("b0", "b1")]

    def test_runs_that_are_no_ranks_stay_alone(self) -> None:
        runs = [{**stub(None), "run_id": name, "world_size": None} for name in "ab"]
        assert [one.run_ids for one in jobs(runs)] == [("a",), ("b",)]


def stub(rank: int | None) -> dict[str, Any]:
    """A run of a report, as far as jobs look at it."""
    return {
        "run_id": "", "rank": rank, "world_size": 2, "script": "t.py", "gpu": None, "phases_pct": {"data": 5.0},
        "verdict": {"cause": "sync", "confidence": 0.5}, "step_ms": {"p50": 100.0}, "steady_ms": {"p50": 100.0},
    }  # fmt: skip


@pytest.mark.parametrize(
    "records",
    [
        [],
        [HEAD],
        [Gpu(t=START, host="box", gpu_uuid="g")],
        [HEAD, *steps([100.0])],
        [HEAD, *steps([0.0, 0.0])],
        [HEAD, Event(t=START, kind="exit", run_id="a")],
        [HEAD, *steps([3_600_000.0] * 3)],
        [HEAD, *steps([100.0] * 20, partial=lambda step: True)],
        steps([100.0] * 20),
    ],
    ids=["nothing", "a run alone", "a gpu alone", "one step", "steps of no length", "an exit", "hours a step",
         "partial steps", "steps of nobody"],
)  # fmt: skip
def test_odd_traces_have_a_report(records: list[Any]) -> None:
    from gputop.report import page, words

    judged = judge_trace(records, "odd")
    figures = summary.of_trace(judged)
    assert words.of_report(figures)
    assert page.of_report(figures, judged.series).startswith("<!doctype html>")
