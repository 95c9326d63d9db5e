"""The page without a browser: it parses, refers to nothing outside, and tells what JSON and words tell."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gputop import figures as fig
from gputop.cli import run
from gputop.codec import to_json
from gputop.records import Gpu, Host, Run, Step
from gputop.report import page, summary, words
from gputop.report.judged import Judged, judge_trace
from gputop.report.plotting import encoded, plotted
from tests.report.traces import HOSTILE, MS, START, S, alone, job, said

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reading(HTMLParser):
    """A page as its elements (with attributes) and its text; fails where a tag closes what was not open."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.inside: list[str] = []
        self.scripts: dict[str, str] = {}
        self.feed(text)
        self.close()
        assert self.inside == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.inside.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.inside.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.inside or "style" in self.inside:
            self.scripts[str(self.elements[-1][1].get("id") or len(self.scripts))] = data
        elif data.strip():
            self.texts.append(data.strip())

    @property
    def text(self) -> str:
        return "\n".join(self.texts)


@pytest.fixture(scope="module")
def judged() -> Judged:
    trace = sorted([*job(seconds=90), said("r0", 20, "sync"), said("r0", 50, "straggler")], key=lambda one: one.t)
    return judge_trace(trace, "run.gputop")


@pytest.fixture(scope="module")
def report(judged: Judged) -> dict[str, Any]:
    return summary.of_trace(judged, ("line 7 skipped",))


@pytest.fixture(scope="module")
def html(judged: Judged, report: dict[str, Any]) -> str:
    return page.of_report(report, judged.series)


@pytest.fixture(scope="module")
def read(html: str) -> Reading:
    return Reading(html)


def test_nothing_is_asked_of_any_network(html: str, read: Reading) -> None:
    for tag, attributes in read.elements:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base", "form")
        assert not {"src", "href", "srcset", "action", "style"} & attributes.keys(), (tag, attributes)
        assert not [name for name in attributes if name.startswith("on")]
    addresses = set(re.findall(r"https?://[^\s\"')<]+", html))
    assert addresses <= {"https://github.com/leeoniya/uPlot"}, "the library's own name in its first comment"
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|WebSocket|sendBeacon|import\(", html)


def test_its_policy_allows_its_own_scripts_alone(html: str, read: Reading) -> None:
    policy = next(one["content"] for tag, one in read.elements if one.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    scripts = re.findall(r"<script>(.*?)</script>", html, flags=re.DOTALL)
    (style,) = re.findall(r"<style>(.*?)</style>", html, flags=re.DOTALL)
    assert policy == page.policy(scripts, style)


def test_the_figures_are_those_of_the_json(report: dict[str, Any], read: Reading) -> None:
    lead = next(one for one in report["runs"] if one["run_id"] == report["jobs"][0]["lead"])
    expected = [
        lead["verdict"]["cause"],
        lead["verdict"]["headline"],
        f"confidence {100 * lead['verdict']['confidence']:.0f} %",
        fig.ms(lead["steady_ms"]["p50"]),
        fig.ms(lead["steady_ms"]["p99"]),
        fig.ms(lead["step_ms"]["max"]),
        fig.rate(lead["steps_per_s"]),
        *(fig.pct(pct) for pct in lead["phases_pct"].values() if pct is not None),
        *(fig.ms(one["first_step_ms"]) for one in lead["epochs"]),
        *(fig.pct(one["util_mean_pct"]) for one in report["gpus"]),
        *(one["why"] for job in report["jobs"] for one in job["outliers"]),
        *(advice["do"] for advice in lead["verdict"]["advice"]),
        "line 7 skipped",
    ]
    assert [text for text in expected if text not in read.text] == []


def test_the_charts_have_the_figures_of_the_series(judged: Judged, read: Reading) -> None:
    data = json.loads(read.scripts["figures"])
    assert [run["chip"] for run in data["runs"]] == [str(rank) for rank in range(8)]
    for one in data["runs"]:
        mine = judged.series.runs[one["id"]]
        assert len(one["p50"]) == data["axis"]["n"] == judged.series.axis.columns
        for drawn, known in zip(one["high"], mine.high, strict=True):
            assert (drawn is None) == (known is None)
            assert drawn is None or drawn == pytest.approx(known, rel=1e-3)
    assert {mark["kind"] for mark in data["marks"]} == {"checkpoint", "epoch"}
    assert data["runs"][0]["differs"]
    assert not data["runs"][1]["differs"]


def test_hostile_text_is_inert_wherever_it_stands() -> None:
    phases = {HOSTILE: 50 * MS}
    trace: list[Any] = [
        Run(t=START, run_id=HOSTILE, pid=7, host=HOSTILE, script=HOSTILE, device="cpu", label=HOSTILE),
        *(Step(t=START + n * 100 * MS, run_id=HOSTILE, n=n, dur_ns=100 * MS, phases_ns=phases) for n in range(50)),
        *(Gpu(t=START + n * S, host=HOSTILE, gpu_uuid=HOSTILE, name=HOSTILE, util_pct=5.0) for n in range(5)),
        *(Host(t=START + n * S, host=HOSTILE, cpu_pct=5.0) for n in range(5)),
    ]
    judged = judge_trace(trace, HOSTILE)
    text = page.of_report(summary.of_trace(judged, (HOSTILE,)), judged.series)
    read = Reading(text)
    assert text.count("<script") == 3
    assert text.count("</script") == 3
    assert not any(tag == "img" for tag, _ in read.elements)
    assert not any(sign in text for sign in ("\x1b", "\x07", "\u202e"))
    data = json.loads(read.scripts["figures"])
    assert data["runs"][0]["id"] == HOSTILE, "names are kept as they are where nothing can come of them"


def test_data_can_end_no_script() -> None:
    text = encoded({"a": "</script><!--<script>&\u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": "</script><!--<script>&\u2028"}


def test_what_is_no_number_is_not_drawn() -> None:
    trace = [*alone(), Host(t=START, host="box", cpu_pct=float("nan")), Host(t=START + S, host="box", cpu_pct=5.0)]
    judged = judge_trace(trace, "x")
    assert encoded(plotted(summary.of_trace(judged), judged.series))


def test_of_very_many_runs_some_are_drawn_and_all_are_counted() -> None:
    trace = [one for rank in range(60) for one in alone(12, run_id=f"run{rank}")]
    judged = judge_trace(sorted(trace, key=lambda one: one.t), "x")
    report = summary.of_trace(judged)
    assert len(report["runs"]) == 60
    assert len(plotted(report, judged.series)["runs"]) == 32


class TestCommand:
    """`gputop report FILE --html OUT`."""

    @pytest.fixture
    def trace(self, tmp_path: Path) -> Path:
        path = tmp_path / "t.jsonl"
        path.write_bytes(b"".join(to_json(one) + b"\n" for one in alone()))
        return path

    def test_into_a_file(self, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["report", str(trace), "--html", str(tmp_path / "out.html")]) == 0
        assert Reading((tmp_path / "out.html").read_text(encoding="utf-8")).text
        assert capsys.readouterr().out.startswith(f"{tmp_path / 'out.html'}: the page, ")

    def test_to_stdout(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["report", str(trace), "--html", "-"]) == 0
        assert capsys.readouterr().out.startswith("<!doctype html>")

    def test_beside_json(self, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["report", str(trace), "--json", "--html", str(tmp_path / "out.html")]) == 0
        assert json.loads(capsys.readouterr().out)["schema"] == 1
        assert run(["report", str(trace), "--json", "--html", "-"]) == 2

    def test_where_nothing_can_be_written(self, trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["report", str(trace), "--html", "/nowhere/out.html"]) == 1
        assert "can't be written" in capsys.readouterr().err

    def test_what_is_there_is_replaced_on_request(
        self, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        out = tmp_path / "out.html"
        out.write_text("mine")
        assert run(["report", str(trace), "--html", str(out)]) == 1
        assert "exists already; --force replaces it" in capsys.readouterr().err
        assert out.read_text() == "mine"
        assert run(["report", str(trace), "--html", str(out), "--force"]) == 0
        assert out.read_text(encoding="utf-8").startswith("<!doctype html>")

    @pytest.mark.parametrize("more", [[], ["--force"]])
    def test_the_file_that_is_read_is_never_replaced(
        self, more: list[str], trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        before = trace.read_bytes()
        (tmp_path / "link").symlink_to(trace)
        assert run(["report", str(trace), "--html", str(tmp_path / "link"), *more]) == 1
        assert "is the file that is read; name another" in capsys.readouterr().err
        assert trace.read_bytes() == before

    def test_a_full_disk_leaves_nothing(self, trace: Path, tmp_path: Path) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, hard))
            code = run(["report", str(trace), "--html", str(tmp_path / "out.html")])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            signal.signal(signal.SIGXFSZ, handler)
        assert code == 1
        assert [one.name for one in tmp_path.iterdir()] == [trace.name]

    def test_it_is_there_though_nobody_reads_the_json(self, trace: Path, tmp_path: Path) -> None:
        reading, writing = os.pipe()
        os.close(reading)
        words = [sys.executable, "-m", "gputop", "report", str(trace), "--json", "--html", str(tmp_path / "out.html")]
        done = subprocess.run(words, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "out.html").stat().st_size > 10_000

    def test_of_no_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["report", str(tmp_path / "none.gputop"), "--html", "-"]) == 3
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_page_says_the_same_as_the_words(report: dict[str, Any], read: Reading) -> None:
    said_ = words.of_report(report)
    for share in ("over the run", "step time", "checkpoint"):
        line = next(one for one in said_.splitlines() if f" {share}:" in one)
        for figure in re.findall(r"\d[\d.]* (?:ms|s|%)(?=[ ;)]|$)", line):
            assert figure in read.text, (share, figure)
