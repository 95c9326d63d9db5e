"""What a headless recorder says last."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.cli.journal import Journal
from gputop.recording.state import RecordingState
from gputop.report.plain import PATIENCE_NS, PlainStream
from tests.tui.views import no_run, view


def state(path: Path, steps: int = 0) -> RecordingState:
    return RecordingState(path=str(path), since_ns=0, steps=steps)


def ended(last: RecordingState, seconds: float, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said at the end of a recording of one run, whose file is there."""
    Path(last.path).touch()
    journal = Journal()
    journal.saw(view(), state(Path(last.path)))
    capsys.readouterr()
    journal.ended(last, seconds)
    return capsys.readouterr().out


def test_the_report_is_named_where_there_is_something_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.gputop"
    said = ended(state(file, steps=7), 9, capsys)
    assert "recorded 7 steps of 1 run in 9.0 s" in said
    assert said.endswith(f"gputop report {file}\n")


def test_a_file_that_is_gone_and_a_run_that_never_came_are_not_to_be_looked_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Journal().ended(state(tmp_path / "gone.gputop", steps=7), 9)
    assert "gputop report" not in (said := capsys.readouterr().out)
    assert f"no file is left at {tmp_path / 'gone.gputop'}" in said
    (tmp_path / "none.gputop").touch()
    Journal().ended(state(tmp_path / "none.gputop"), 9)
    assert "gputop report" not in capsys.readouterr().out


def test_of_a_file_that_was_moved_it_tells_what_is_in_the_one_that_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.gputop"
    said = ended(msgspec.structs.replace(state(file, steps=1753), steps_here=567), 9, capsys)
    assert "recorded 1,753 steps of 1 run in 9.0 s" in said
    assert "; 567 of the steps are in the file that is left; see what held them back:" in said


def test_what_goes_on_already_gets_time_to_be_heard() -> None:
    stream = PlainStream()
    none = no_run()
    assert none.waiting
    assert not any(none.waiting in line for line in stream.lines(none))
    later = msgspec.structs.replace(none, now_ns=none.now_ns + PATIENCE_NS)
    assert any(none.waiting in line for line in stream.lines(later))
    assert not any(none.waiting in line for line in stream.lines(later))


def test_where_every_step_was_lost_there_is_nothing_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "run.gputop"
    said = ended(msgspec.structs.replace(state(file), dropped=1270), 3, capsys)
    assert "recorded 0 steps of 1 run in 3.0 s, 1,270 records lost" in said
    assert "gputop report" not in said
