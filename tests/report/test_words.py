"""The report in words: golden texts, lines that break between words only, plain characters where nothing else goes."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop import figures as fig
from gputop.records import Advice, Evidence, Run, RunnerUp, Verdict
from gputop.report import summary, words
from gputop.report.judged import Judged, judge_trace, report_on
from gputop.report.paper import GLUE, Paper, bar, cells, code, joined, paper_for, paragraph
from gputop.view import Segment
from tests.report.traces import HOSTILE, START, S, alone, job, said

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Moments are told in local time."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def told(judged: Judged, cause: str = "input-workers") -> Judged:
    """A judged trace whose verdicts are these words, whatever the rules of the day say."""
    verdict = Verdict(
        t=START, run_id="", cause=cause, family="input", confidence=0.91, share_pct=56.0, speedup_limit=2.31,
        headline="data wait takes 118 of 171 ms per step (69 %): 4 workers at 100 % CPU can't keep up while 7.5 cores "
        "of 12 are free",
        advice=[
            Advice(
                do="num_workers 4 → 11", why="a batch takes 684 ms of one worker",
                code="loader = DataLoader(dataset, batch_size=128, num_workers=11, persistent_workers=True, "
                "pin_memory=True)",
            ),
            Advice(do="make each batch cheaper"),
        ],
        evidence=[
            Evidence(signal="step time lost waiting for data", value=55.69, unit="%", threshold=10.0),
            Evidence(signal="workers", value=4.0, unit="workers", supports=False),
            Evidence(signal="costliest read", value="train.py:88"),
        ],
        runner_up=RunnerUp(cause="launch-bound", share_pct=12.0), notices=["nvidia-smi would show 0 % here"],
    )  # fmt: skip
    runs = {}
    for run_id, report in judged.runs.items():
        segments = (Segment(START, START + 15 * S, "warmup"), Segment(START + 15 * S, judged.to_ns, cause))
        then = [(one.from_ns, one.cause) for one in report.said]
        runs[run_id] = report_on(run_id, verdict, segments, told=then, end_ns=judged.to_ns)
    return msgspec.structs.replace(judged, runs=runs)


@pytest.fixture(scope="module")
def ranks() -> dict[str, Any]:
    """The report of a job of eight ranks."""
    trace = sorted([*job(seconds=130), said("r0", 20, "sync"), said("r0", 80, "input-workers")], key=lambda one: one.t)
    return summary.of_trace(told(judge_trace(trace, "run.gputop")), ("line 7 skipped: no record",))


@pytest.fixture(scope="module")
def single() -> dict[str, Any]:
    """The report of one run without a GPU."""
    return summary.of_trace(told(judge_trace(alone(600), "trace.jsonl")))


def check(name: str, text: str) -> None:
    """Compare with the golden file; GPUTOP_UPDATE_GOLDEN=1 writes it anew."""
    file = GOLDEN / name
    if os.environ.get("GPUTOP_UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_a_job_in_a_pipe(ranks: dict[str, Any]) -> None:
    check("job-pipe.txt", words.of_report(ranks))


def test_a_job_on_a_terminal(ranks: dict[str, Any]) -> None:
    check("job-80.txt", words.of_report(ranks, Paper(width=80)))


def test_one_run_in_plain_characters(single: dict[str, Any]) -> None:
    text = words.of_report(single, Paper(width=72, ascii=True))
    assert text.isascii()
    check("single-72-ascii.txt", text)


def test_one_run_in_colour(single: dict[str, Any]) -> None:
    check("single-100-colour.txt", words.of_report(single, Paper(width=100, color=True)))


@pytest.mark.parametrize("width", [40, 60, 79, 120])
def test_no_line_is_wider_than_the_terminal(ranks: dict[str, Any], width: int) -> None:
    text = words.of_report(ranks, Paper(width=width))
    assert max(cells(line) for line in text.splitlines()) <= width


def test_advice_and_code_break_between_words_only(ranks: dict[str, Any]) -> None:
    every = set(words.of_report(ranks).replace(GLUE, " ").split())
    for width in range(40, 110, 7):
        text = words.of_report(ranks, Paper(width=width))
        advice = text[text.index("→ num_workers") : text.index("up to 2.3x")]
        assert set(advice.split()) <= every, width


def test_a_pipe_gets_no_escapes_and_whole_lines(ranks: dict[str, Any]) -> None:
    text = words.of_report(ranks)
    assert "\x1b" not in text
    assert GLUE not in text
    assert any(
        "4 workers at 100 % CPU can't keep up while 7.5 cores of 12 are free" in line for line in text.splitlines()
    )


def test_ranks_are_told_once_with_a_table(ranks: dict[str, Any]) -> None:
    text = words.of_report(ranks)
    assert text.count("INPUT-WORKERS") == 1
    assert "rank 5 differs: waits for data 4" in text
    assert "8 ranks" in text


def test_what_was_said_then_is_told_where_it_differs(ranks: dict[str, Any]) -> None:
    assert "said sync, now input-workers" in words.of_report(ranks)


def test_hostile_names_reach_no_terminal() -> None:
    trace = alone(script=HOSTILE)
    text = words.of_report(summary.of_trace(judge_trace(trace, HOSTILE), (HOSTILE,)), Paper(width=80, color=False))
    assert not any(sign in text for sign in ("\x1b", "\x07", "\u202e", "\r"))


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def isatty(self) -> bool:
        return True


def test_the_paper_is_what_the_stream_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "93")
    color = {"TERM": "xterm-256color", "COLUMNS": "93"}
    assert paper_for(Terminal(), color) == Paper(width=93, color=True, ascii=False)
    assert paper_for(Terminal("latin-1"), color).ascii
    assert not paper_for(Terminal(), {**color, "NO_COLOR": "1"}).color
    assert not paper_for(Terminal(), {**color, "TERM": "dumb"}).color
    assert not paper_for(Terminal(), color, color=False).color
    assert paper_for(Terminal(), {**color, "TERM": "linux"}).ascii
    pipe = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert paper_for(pipe, {"TERM": "xterm"}) == Paper()
    assert paper_for(pipe, {"TERM": "xterm", "COLUMNS": "93"}) == Paper(width=93)


@given(st.lists(st.text("abcdefgh→", min_size=1, max_size=30), min_size=1, max_size=30), st.integers(40, 120))
def test_a_paragraph_loses_no_word_and_breaks_none(text: list[str], width: int) -> None:
    lines = list(paragraph(" ".join(text), width, "  - "))
    assert [word for line in lines for word in line[4:].split()] == text
    assert all(cells(line) <= width for line in lines)


@given(st.integers(20, 120))
def test_broken_code_is_still_the_same_code(width: int) -> None:
    line = 'loader = DataLoader(dataset, batch_size=128, name="a, (b", num_workers=11, pin_memory=True)'
    broken = list(code(line, width, "    "))
    assert compile("\n".join(one[4:] for one in broken), "advice", "exec")
    assert "".join("".join(broken).split()) == "".join(line.split())


def test_pieces_stay_whole_where_they_are_short() -> None:
    lines = list(paragraph(joined(["184 ms a step", "5.4 steps/s", "691 samples/s"]), 30))
    assert [line.replace(GLUE, " ") for line in lines] == ["184 ms a step · 5.4 steps/s ·", "691 samples/s"]


@given(st.dictionaries(st.sampled_from(["data", "forward", "mine", "other"]), st.floats(0.01, 100), min_size=1))
def test_a_bar_is_as_long_as_its_shares(weights: dict[str, float]) -> None:
    total = sum(weights.values())
    shares = {name: 100 * weight / total for name, weight in weights.items()}
    assert abs(len(bar(shares, 76, Paper())) - 76) <= 1


@pytest.mark.parametrize(("locale", "plain"), [("C", True), ("POSIX", True), ("C.UTF-8", False), ("", False)])
def test_a_locale_that_is_not_utf_8_gets_plain_characters(locale: str, plain: bool) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    assert paper_for(stream, {"LC_ALL": locale}).ascii is plain


@pytest.mark.parametrize("length_ms", [100, 7])
def test_the_percentiles_in_words_are_those_of_the_json(length_ms: int) -> None:
    judged = judge_trace([*alone(400, length_ms=length_ms), *job(2, 60)], "x")
    for run in summary.of_trace(judged)["runs"]:
        said_, steady = words.percentile_words(run).replace(GLUE, " "), run["steady_ms"]
        for name in ("p50", "p95", "p99", "max"):
            assert f"{name} {fig.ms(steady[name])}" in said_
        assert steady["steps"] + steady["warmup_steps"] + steady["epoch_firsts"] == run["steps"]
        assert (f"longest of all {fig.ms(run['step_ms']['max'])}" in said_) == (steady["steps"] < run["steps"])


def test_that_the_longest_step_is_known_from_a_sum_alone_is_said() -> None:
    run = {
        "steady_ms": {"p50": 5.0, "p95": 6.0, "p99": 7.0, "max": 8.0, "warmup_steps": 0, "epoch_firsts": 0},
        "step_ms": {"p50": 5.0, "p95": 6.0, "p99": 7.0, "max": 90.0},
    }
    assert words.percentile_words(run).replace(GLUE, " ").endswith("max 8 ms (longest of all 90 ms)")


@pytest.mark.parametrize("width", [40, 48, 60])
def test_a_narrow_terminal_loses_whole_columns_never_digits(ranks: dict[str, Any], width: int) -> None:
    whole = set(words.of_report(ranks).replace(GLUE, " ").split())
    lines = words.of_report(ranks, Paper(width=width)).splitlines()
    row = next(line.split() for line in lines if line.startswith("     0  "))
    assert row[-1] == "input-workers"
    figures = {word for line in lines for word in line.split() if re.fullmatch(r"[\d.,]+", word)}
    assert figures <= whole


def test_a_figure_stays_with_its_unit() -> None:
    for width in range(12, 40):
        lines = list(paragraph("it waits 75.5 % of 33 ms, 12 GiB at 3.2 MB/s in 5 min", width))
        assert not any(line.split()[0] in ("%", "ms,", "GiB", "MB/s", "min") for line in lines), width


def test_jobs_of_one_script_are_told_apart() -> None:
    trace = [*alone(run_id="a"), *alone(run_id="b"), *alone(run_id="c", script="other.py")]
    trace = [
        msgspec.structs.replace(one, pid=77) if isinstance(one, Run) and one.run_id == "b" else one for one in trace
    ]
    report = summary.of_trace(judge_trace(sorted(trace, key=lambda one: one.t), "two.gputop"))
    names = words.names(report)
    assert names["c"] == "other.py"
    assert names["b"] == "train.py 77"
    assert names["a"] not in (names["b"], "train.py")
