"""Reports of simulated traces: the promised JSON, the words, the plain stream."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gputop.cli import run
from gputop.codec import to_json
from gputop.records import Event, Gpu, Run, Sampler, Step
from gputop.report import summary, text
from gputop.report.judged import judge_trace
from gputop.report.plain import PlainStream
from gputop.simulation.trace import records
from gputop.watching import Watch

S = 1_000_000_000


def written(path: Path, scenario: str, *, fixed: bool = False, seconds: float = 40) -> Path:
    path.write_bytes(b"".join(to_json(one) + b"\n" for one in records(scenario, fixed=fixed, seconds=seconds)))
    return path


@pytest.fixture(scope="module")
def answer() -> dict[str, Any]:
    """The JSON of one simulated trace."""
    judged = judge_trace(records("input-workers", seconds=40), "trace.jsonl")  # type: ignore[arg-type]
    figures: dict[str, Any] = json.loads(json.dumps(summary.of_trace(judged), allow_nan=False))
    return figures


class TestJson:
    """Keys are promises."""

    def test_the_frame(self, answer: dict[str, Any]) -> None:
        assert answer["schema"] == 1
        assert answer["source"] == "trace.jsonl"
        assert answer["simulated"] is True
        assert answer["from_ns"] < answer["to_ns"]
        assert {"runs", "gpus", "host", "warnings"} <= answer.keys()

    def test_a_run(self, answer: dict[str, Any]) -> None:
        (one,) = answer["runs"]
        assert one["steps"] > 100
        assert one["step_ms"]["p50"] <= one["step_ms"]["p95"] <= one["step_ms"]["max"]
        assert one["steps_per_s"] > 0
        assert one["samples_per_s"] > one["steps_per_s"]
        assert {"data", "h2d", "forward", "backward", "optimizer", "other"} <= one["phases_pct"].keys()
        known = [pct for pct in one["phases_pct"].values() if pct is not None]
        assert sum(known) == pytest.approx(100, abs=0.01)
        assert all(0 <= pct <= 100 for pct in known)
        assert {"uuid", "util_pct", "idle_pct", "mem_used_bytes", "mem_total_bytes"} <= one["gpu"].keys()

    def test_the_verdict_has_every_promised_key(self, answer: dict[str, Any]) -> None:
        verdict = answer["runs"][0]["verdict"]
        assert {
            "cause", "family", "headline", "confidence", "share_pct", "speedup_limit", "evidence", "advice",
            "runner_up", "since_ns", "clock", "simulated", "notices",
        } <= verdict.keys()  # fmt: skip
        assert verdict["cause"] == "input-workers"
        assert {"signal", "value", "unit", "threshold", "supports", "source", "window_s"} <= verdict["evidence"][
            0
        ].keys()
        assert {"do", "why", "code"} <= verdict["advice"][0].keys()

    def test_causes_over_time_sum_to_the_run(self, answer: dict[str, Any]) -> None:
        one = answer["runs"][0]
        assert sum(one["causes_pct"].values()) == pytest.approx(100)
        ends = [(segment["from_ns"], segment["to_ns"]) for segment in one["timeline"]]
        assert all(start <= end for start, end in ends)
        assert all(before[1] <= after[0] for before, after in pairwise(ends))

    def test_what_was_never_observed_is_null(self) -> None:
        steps = [Step(t=i * S, run_id="a", n=i, dur_ns=S, phases_ns={"data": S // 2}) for i in range(30)]
        judged = judge_trace([Run(t=0, run_id="a", pid=1, host="h"), *steps], "x")
        (one,) = summary.of_trace(judged)["runs"]
        assert one["phases_pct"]["data"] == pytest.approx(50)
        assert one["phases_pct"]["h2d"] is None
        assert one["gpu"] is None
        assert one["samples_per_s"] is None


def test_report_in_words_and_json_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "t.jsonl", "host-work")
    assert run(["report", str(path)]) == 0
    words = capsys.readouterr().out
    assert "HOST-WORK" in words
    assert "simulated GPU" in words
    assert run(["report", str(path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["runs"][0]["verdict"]["cause"] == "host-work"


def test_a_short_trace_is_judged_as_a_whole() -> None:
    """Twenty-odd steps in two seconds are all that will ever be known of this run."""
    run_ = Run(t=0, run_id="a", pid=1, host="h", device="cpu", cores_allowed=8)
    steps = [
        Step(
            t=i * S // 10, run_id="a", n=i, dur_ns=S // 10, loader_id=1, had_backward=True,
            phases_ns={"data": S // 100, "forward": S // 25, "backward": S // 25, "optimizer": S // 200},
        )
        for i in range(25)
    ]  # fmt: skip
    judged = judge_trace([run_, *steps], "x")
    assert judged.runs["a"].verdict.cause != "warmup"
    assert judged.runs["a"].causes_pct


def test_runs_that_ended_long_before_the_trace_did_are_reported() -> None:
    runs = [Run(t=0, run_id=name, pid=1, host="h") for name in "ab"]
    first = [Step(t=i * S, run_id="a", n=i, dur_ns=S, phases_ns={}) for i in range(30)]
    later = [Step(t=2000 * S + i * S, run_id="b", n=i, dur_ns=S, phases_ns={}) for i in range(30)]
    judged = judge_trace([*runs, *first, Event(t=31 * S, kind="exit", run_id="a"), *later], "x")
    assert [one["steps"] for one in summary.of_trace(judged)["runs"]] == [30, 30]


def test_hostile_names_reach_no_terminal() -> None:
    run_ = Run(t=0, run_id="a", pid=1, host="h\x1b[2J", script="/x/\x1b]0;owned\x07train.py")
    gpu = Gpu(t=0, host="h", gpu_uuid="g", name="\x1b[31mred\r\n")
    steps = [Step(t=i * S, run_id="a", n=i, dur_ns=S, phases_ns={"\x1b[5m": S // 2}) for i in range(30)]
    judged = judge_trace([run_, gpu, *steps], "x")
    words = text.of_trace(judged) + text.of_view(judged.view())
    assert "\x1b" not in words
    assert "\r" not in words


def test_the_plain_stream_says_each_thing_once() -> None:
    watch, stream, said = Watch("x"), PlainStream(), []
    due = None
    for record in records("input-workers", seconds=60):
        watch.add(record)  # type: ignore[arg-type]
        if due is None or record.t > due:
            watch.tick(record.t)
            said += list(stream.lines(watch.view(record.t)))
            due = record.t + S
    assert sum("INPUT-WORKERS" in line for line in said) in (1, 2)
    assert len(said) == len(set(said))
    assert all("simulated GPU" in line for line in said)


def test_of_ten_ranks_each_is_reported() -> None:
    ranks = [Run(t=0, run_id=str(r), pid=r + 1, host="h", rank=r, world_size=10, script="t.py") for r in range(10)]
    steps = [
        Step(t=i * S, run_id=str(r), n=i, dur_ns=S, phases_ns={"data": S // 4}) for i in range(30) for r in range(10)
    ]
    figures = summary.of_trace(judge_trace([*ranks, *steps], "x"))
    assert [one["rank"] for one in figures["runs"]] == list(range(10))


def steps_of(durations: list[float], **phases: float) -> list[Step]:
    """Steps of these seconds one after another; what the phases leave is `other`."""
    out, t = [], 0
    for n, seconds in enumerate(durations):
        ns = int(seconds * S)
        named = {name: int(share * S) for name, share in phases.items()}
        out.append(Step(t=t, run_id="a", n=n, dur_ns=ns, phases_ns=named, loader_id=1, had_backward=True))
        t += ns
    return out


def test_a_run_that_ended_in_a_standstill_is_reported_as_such() -> None:
    run_ = Run(t=0, run_id="a", pid=1, host="h", device="cpu", cores_allowed=8)
    steps = steps_of([0.5] * 200, forward=0.2, backward=0.25)
    later = [Gpu(t=t * S, host="h", gpu_uuid="g", util_pct=0.0) for t in range(100, 300)]
    assert judge_trace([run_, *steps, *later], "x").runs["a"].verdict.cause == "stalled"


def test_a_rare_long_checkpoint_is_found_over_the_whole_run() -> None:
    """Twelve seconds every 46: most windows hold none of them."""
    run_ = Run(t=0, run_id="a", pid=1, host="h", device="cpu", cores_allowed=8)
    steps, t = [], 0
    for n in range(400):
        pause = 12 * S if n % 68 == 67 else 0
        phases = {"forward": S // 5, "backward": S // 4, "checkpoint": pause}
        steps.append(
            Step(t=t, run_id="a", n=n, dur_ns=S // 2 + pause, phases_ns=phases, loader_id=1, had_backward=True)
        )
        t += S // 2 + pause
    assert judge_trace([run_, *steps], "x").runs["a"].verdict.cause == "checkpoint"


def test_every_one_of_very_many_runs_is_reported() -> None:
    runs = [Run(t=0, run_id=str(n), pid=n + 1, host="h") for n in range(100)]
    steps = [Step(t=i * S, run_id=str(n), n=i, dur_ns=S, phases_ns={}) for i in range(6) for n in range(100)]
    assert len(summary.of_trace(judge_trace([*runs, *steps], "x"))["runs"]) == 100


def test_shares_stay_shares_whatever_the_phases_say() -> None:
    steps = steps_of([0.1] * 60, data=0.06, other=0.03)
    steps[7] = msgspec.structs.replace(steps[7], phases_ns={"data": 5 * S})
    (one,) = summary.of_trace(judge_trace([Run(t=0, run_id="a", pid=1, host="h"), *steps], "x"))["runs"]
    known = [pct for pct in one["phases_pct"].values() if pct is not None]
    assert sum(known) == pytest.approx(100)
    assert all(0 <= pct <= 100 for pct in known)


def test_percentiles_of_a_long_run_stay_below_its_longest_step() -> None:
    (one,) = summary.of_trace(judge_trace([Run(t=0, run_id="a", pid=1, host="h"), *steps_of([0.184] * 6000)], "x"))[
        "runs"
    ]
    assert one["step_ms"]["p50"] <= one["step_ms"]["p95"] <= one["step_ms"]["max"]


def test_endless_nesting_and_hostile_samplers_do_no_harm() -> None:
    nested: list[object] = []
    for _ in range(900):
        nested = [nested]
    gpu = Gpu(t=1, host="h", gpu_uuid="u", mig=[{"a": nested}])
    sampler = Sampler(t=1, host="h", backend="\x1b[2Jx", state="\x1b]0;p\x07")
    judged = judge_trace([Run(t=0, run_id="a", pid=1, host="h"), gpu, sampler], "x")
    json.dumps(summary.of_trace(judged), allow_nan=False)
    assert "\x1b" not in text.of_trace(judged)
    assert not any("\x1b" in line for line in PlainStream().lines(judged.view()))
