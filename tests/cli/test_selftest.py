"""`gputop selftest`: loops planted and judged, the matrix, and an exit status that says whether it went well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from gputop.cli import planted
from gputop.cli.planted import Trial
from gputop.cli.selftest import command, line, matrix

DEMOS = Path(__file__).resolve().parents[2] / "demos"


def trial(said: str, *expected: str, fixed: bool = False, **fields: float) -> Trial:
    return Trial(kind="real", name="x", fixed=fixed, expected=expected, said=said, headline="", **fields)


def test_simulated_loops_are_named_and_cured() -> None:
    ran = CliRunner().invoke(command, ["--simulated", "--only", "sync", "--json"], standalone_mode=False)
    answer = json.loads(ran.output)
    assert (ran.return_value, answer["ok"], answer["right"], answer["of"]) == (0, True, 2, 2)
    planted_one, cured = answer["trials"]
    assert (planted_one["said"], cured["said"]) == ("sync", "gpu-bound")
    assert cured["gain"] == pytest.approx(cured["promised"], rel=0.15)


def test_it_ends_with_the_matrix_in_words() -> None:
    ran = CliRunner().invoke(command, ["--simulated", "--only", "gpu-bound"], standalone_mode=False)
    assert ran.return_value == 0
    assert "gpu-bound  gpu-bound 2" in ran.output
    assert ran.output.endswith("2 of 2 right\n")


def test_an_unknown_loop_is_a_usage_error() -> None:
    ran = CliRunner().invoke(command, ["--simulated", "--only", "nonsense"])
    assert ran.exit_code == 2
    assert "no loop 'nonsense'" in ran.output


def test_a_miss_is_said_and_makes_the_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "simulated", lambda only: iter([trial("sync", "host-work")]))
    ran = CliRunner().invoke(command, ["--simulated"], standalone_mode=False)
    assert ran.return_value == 1
    assert "MISS" in ran.output
    assert "sync, expected host-work" in ran.output


def test_without_torch_the_real_loops_are_left_out_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted, "folder", lambda given: None)
    monkeypatch.setattr(planted, "simulated", lambda only: iter([trial("sync", "sync")]))
    ran = CliRunner().invoke(command, [], standalone_mode=False)
    assert ran.return_value == 0
    assert "left out" in ran.output


def test_the_matrix_counts_by_what_was_planted() -> None:
    text = matrix([trial("sync", "sync"), trial("host-work", "sync", "x"), trial("sync", "sync")])
    assert text.splitlines()[1].split() == ["sync", "sync", "2,", "host-work", "1"]


def test_a_cure_is_set_beside_its_promise() -> None:
    assert line(trial("gpu-bound", "gpu-bound", fixed=True, gain=1.98, promised=2.1)).endswith(
        "the cure made it 1.98 times as fast, promised 2.10"
    )


def test_the_scripts_are_found_beside_the_package() -> None:
    pytest.importorskip("torch")
    assert planted.folder(None) == DEMOS
    assert planted.folder(DEMOS.parent / "docs") is None


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_real_loop_is_planted_and_cured() -> None:
    pytest.importorskip("torch")
    found = list(planted.real(DEMOS, ("host_work",), 15, cured=True))
    assert [one.fixed for one in found] == [False, True]
    assert found[1].gain is not None
    assert found[1].gain > 1.2
