"""Recordings that were hardly begun, or whose recorder was killed as it wrote: empty, or whole, never in between."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from gputop.cli import run
from gputop.recording.reader import Recording
from gputop.recording.sqlite import Connection
from gputop.recording.writer import Writer
from gputop.records import Step
from tests.recording.disks import T0, describing, fill, steps


def test_a_disk_that_is_full_from_the_start_keeps_no_empty_file(small_disk: Path) -> None:
    fill(small_disk)
    with pytest.raises(OSError, match="no space left"):
        Writer(small_disk / "run.gputop", now_ns=T0)
    assert [one.name for one in small_disk.iterdir()] == ["filler"]


def test_a_file_that_was_there_stays_though_the_disk_is_full(small_disk: Path) -> None:
    (small_disk / "run.gputop").touch()
    fill(small_disk)
    with pytest.raises(OSError, match="no space left"):
        Writer(small_disk / "run.gputop", now_ns=T0)
    assert (small_disk / "run.gputop").exists()


def test_a_name_that_links_to_nothing_yet_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "run.gputop")
    Writer(tmp_path / "link", now_ns=T0).close(T0)
    assert (tmp_path / "run.gputop").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_killed_as_it_begins_a_recording_is_empty_or_whole(journal: str, tmp_path: Path) -> None:
    """Each thing that SQLite is asked for as a recording begins, and the files as they lie then."""
    path, moments = tmp_path / "run.gputop", []

    class Watched(Connection):
        def execute(self, *question: object) -> sqlite3.Cursor:  # type: ignore[override]
            moments.append((path.read_bytes(), [one.name for one in tmp_path.iterdir()]))
            return super().execute(*question)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gputop.recording.writer.Connection", Watched)
        writer = Writer(path, now_ns=T0, journal=journal)  # type: ignore[arg-type]
    writer.close(T0)
    states = {content for content, _ in moments}
    assert len(states) <= 4
    for content in states - {b""}:
        (tmp_path / "then.gputop").write_bytes(content)
        opened = Recording(tmp_path / "then.gputop")
        assert opened.info().records == 0
        opened.close()


@pytest.mark.parametrize("log", [True, False])
def test_one_that_was_killed_as_it_began_is_said_to_hold_nothing(
    log: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.gputop"
    writer = Writer(path, now_ns=T0)
    shutil.copy(path, tmp_path / "killed.gputop")
    writer.close(T0)
    if log:
        (tmp_path / "killed.gputop-wal").touch()
    assert run(["recover", str(tmp_path / "killed.gputop")]) == 3
    said = capsys.readouterr().err
    assert "holds no record: its recorder was ended as it began" in said
    assert ("is not beside it" in said) != log
    Writer(tmp_path / "killed.gputop", now_ns=T0 + 10**12).close(T0)


def test_only_a_head_is_no_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What earlier versions left when they were killed at once."""
    path = tmp_path / "run.gputop"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA application_id = 0x67707470")
    for words in (["report"], ["replay", "--plain"], ["recover"]):
        assert run([*words, str(path)]) == 3
        said = capsys.readouterr().err
        assert "holds no record" in said
        assert "damaged" not in said
    Writer(path, now_ns=T0).close(T0)
    assert run(["export", str(path), "--to", "jsonl", "-o", "-"]) == 0


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """A recording of 500 steps whose recorder, with a rollback journal, was killed as it deleted them."""
    path = tmp_path / "run.gputop"
    writer = Writer(path, now_ns=T0, journal="delete")
    for record in [*describing(), *steps(500)]:
        writer.add(record)
    writer.commit(T0)
    for question in ("PRAGMA cache_size = 1", "BEGIN IMMEDIATE", "DELETE FROM step"):
        writer._db.execute(question)
    folder = tmp_path / "killed"
    folder.mkdir()
    for name in ("run.gputop", "run.gputop-journal"):
        shutil.copy(tmp_path / name, folder / name)
    writer._db.execute("ROLLBACK")
    writer.close(T0)
    return folder / "run.gputop"


def steps_in(path: Path) -> int:
    opened = Recording(path)
    found = len(list(opened.records(types=(Step,))))
    opened.close()
    return found


def test_what_a_recorder_was_killed_in_is_undone(killed: Path) -> None:
    assert steps_in(killed) == 500
    assert [one.name for one in killed.parent.iterdir()] == ["run.gputop"]


def test_recover_undoes_it_in_a_copy_and_leaves_the_file_as_it_lies(
    killed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = killed.read_bytes()
    out = killed.with_name("saved.gputop")
    assert run(["recover", str(killed), "-o", str(out)]) == 0
    assert "was undone" in capsys.readouterr().err
    assert steps_in(out) == 500
    assert killed.read_bytes() == before
    assert {one.name for one in killed.parent.iterdir()} == {"run.gputop", "run.gputop-journal", "saved.gputop"}


def test_a_journal_that_is_worth_nothing_is_said(killed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    killed.write_bytes(b"\0" * 100 + killed.read_bytes()[100:])
    Path(f"{killed}-journal").write_bytes(b"noise" * 1000)
    run(["recover", str(killed), "-o", str(killed.with_name("saved.gputop"))])
    assert "can't be used" in capsys.readouterr().err


def test_where_nothing_can_be_undone_it_is_said(small_disk: Path, killed: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    opened = Recording(killed)
    assert "can't be mended where it lies" in opened.warnings[0]
    opened.close()
