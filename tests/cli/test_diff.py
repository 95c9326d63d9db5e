"""`gputop diff`: exit codes and what goes where."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.cli import run
from gputop.codec import to_json
from gputop.simulation.trace import records as simulated


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """Traces of a slow run and of the same run cured."""
    folder = tmp_path_factory.mktemp("traces")
    for name, fixed in (("slow", False), ("cured", True)):
        lines = (to_json(record) + b"\n" for record in simulated("input-workers", seconds=40, fixed=fixed))
        (folder / f"{name}.jsonl").write_bytes(b"".join(lines))
    return str(folder / "slow.jsonl"), str(folder / "cured.jsonl")


def test_the_answer_goes_to_stdout(traces: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", *traces]) == 0
    said = capsys.readouterr()
    assert "x faster: data wait" in said.out.splitlines()[0]
    assert said.err == ""


def test_json(traces: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", *traces, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["beyond_noise"] is True


def test_a_regression_is_1_and_an_improvement_is_none(traces: tuple[str, str]) -> None:
    slow, cured = traces
    assert run(["diff", cured, slow, "--fail-on-regression", "5"]) == 1
    assert run(["diff", cured, slow, "--fail-on-regression", "90"]) == 0
    assert run(["diff", slow, cured, "--fail-on-regression", "5"]) == 0
    assert run(["diff", slow, slow, "--fail-on-regression", "0"]) == 0


def test_without_a_verdict_no_regression_is_claimed(
    traces: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    short = tmp_path / "short.jsonl"
    short.write_bytes(b"".join(to_json(record) + b"\n" for record in simulated("input-workers", seconds=4)))
    assert run(["diff", traces[1], str(short), "--fail-on-regression", "1"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("too few steps to compare: B has")
    assert "no regression is claimed" in said.err


def test_what_cannot_be_read_is_3_and_names_the_file(
    traces: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "host.jsonl"
    empty.write_bytes(b'{"type":"host","t":1760000000000000000,"host":"h"}\n')
    for path, why in ((tmp_path / "none", ""), (tmp_path, ""), (empty, "holds no training step")):
        assert run(["diff", traces[0], str(path)]) == 3
        said = capsys.readouterr().err
        assert str(path) in said
        assert why in said
        assert said.count("\n") == 1


def test_a_run_that_is_not_there_is_wrong_usage(traces: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", *traces, "--run-b", "sim"]) == 0
    capsys.readouterr()
    assert run(["diff", *traces, "--run-b", "other"]) == 2
    said = capsys.readouterr().err
    assert "--run-b other: no run" in said
    assert "sim-input-workers-0" in said
    assert run(["diff", *traces, "--fail-on-regression", "nan"]) == 2
