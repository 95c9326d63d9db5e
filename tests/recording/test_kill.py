"""Recorders that are killed, read by others while they write, or meet on one file: all in processes of their own."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.recording.destination import Destination, Limits, S, System
from gputop.recording.errors import Busy
from gputop.recording.reader import Recording
from gputop.recording.recorder import Recorder, open_writer
from gputop.recording.spool import Spool
from gputop.records import Event, Step
from tests.recording.disks import T0, describing, fill, steps

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def recording(path: Path, journal: str = "wal") -> Iterator[subprocess.Popen[str]]:
    """A process that records to the path."""
    line = [sys.executable, "-m", "tests.recording.recording_process", str(path), journal]
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        try:
            yield child
        finally:
            child.kill()


def readable(path: Path) -> list[int]:
    """The numbers of the steps in a recording, in order."""
    opened = Recording(path)
    try:
        return [record.n for record in opened.records() if isinstance(record, Step)]
    finally:
        opened.close()


def sound(path: Path) -> None:
    db = sqlite3.connect(path)
    assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


def killed_once(path: Path, journal: str, patience: float) -> None:
    """Kill a recorder after a while: what it said to be safe is there, and another goes on with the file."""
    with recording(path, journal) as child:
        assert child.stdout is not None
        said = [child.stdout.readline()]
        time.sleep(patience)
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
    acknowledged = max(int(line) for line in said if line.endswith("\n"))
    assert acknowledged > 0
    found = readable(path)
    assert found == list(range(len(found)))
    assert len(found) >= acknowledged
    sound(path)
    after = Recorder(path, floor_bytes=0).start()
    after.add(steps(3, len(found)))
    after.close()
    assert readable(path) == list(range(len(found) + 3))
    sound(path)
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("seed", range(3))
def test_kill_9_loses_nothing_that_was_acknowledged(seed: int, tmp_path: Path) -> None:
    killed_once(tmp_path / "run.gputop", "wal", random.Random(seed).uniform(0, 0.3))


@pytest.mark.slow
@pytest.mark.parametrize("journal", ["wal", "delete"])
@pytest.mark.parametrize("seed", range(20))
def test_twenty_kills_at_random_moments(seed: int, journal: str, tmp_path: Path) -> None:
    killed_once(tmp_path / "run.gputop", journal, random.Random(100 + seed).uniform(0, 1.0))


@pytest.mark.parametrize("journal", ["wal", "delete"])
def test_a_recording_can_be_read_while_it_is_written(journal: str, tmp_path: Path) -> None:
    path = tmp_path / "run.gputop"
    with recording(path, journal) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        child.stdout.readline()
        opened, seen = Recording(path), 0
        assert opened.info().being_written
        for _ in range(20):
            upto = opened.last_seq()  # the other process writes on, and may be the faster one
            assert [seq for seq, _ in opened.numbered(after_seq=seen, upto_seq=upto)] == list(range(seen + 1, upto + 1))
            seen = upto
            said = [child.stdout.readline()]
        opened.close()
        child.stdin.close()
        said += child.stdout.readlines()
        assert child.wait(20) == 0
    assert len(readable(path)) >= int(said[-1]) > 0
    assert len(readable(path)) >= seen - len(describing()) > 0
    assert [one.name for one in tmp_path.iterdir()] == ["run.gputop"]


def test_two_recorders_on_one_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.gputop"
    with recording(path) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with pytest.raises(Busy, match=f"process {child.pid}"):
            Recorder(path)
        before = int(child.stdout.readline())
        assert int(child.stdout.readline()) > before


def test_two_recorders_of_one_process_are_refused_too(tmp_path: Path) -> None:
    made = Recorder(tmp_path / "run.gputop").start()
    with pytest.raises(Busy):
        Recorder(tmp_path / "run.gputop")
    made.close()
    Recorder(tmp_path / "run.gputop").close()


def real(path: Path, spool: Spool, limits: Limits = Limits(floor_bytes=0)) -> Destination:  # noqa: B008
    system = System(open=lambda at, now_ns: open_writer(at, now_ns, True))
    return Destination(path, spool, limits, system, T0)


def test_a_really_full_disk_is_waited_out(small_disk: Path) -> None:
    spool = Spool(max_records=150)
    target = real(small_disk / "run.gputop", spool)
    spool.put([*describing(), *steps(50)])
    target.turn(T0)
    fill(small_disk)
    spool.put(steps(50, 50))
    target.turn(T0 + S)
    assert target.why is not None
    assert "the disk is full" in target.why
    spool.put(steps(200, 100))
    (small_disk / "filler").unlink()
    target.turn(T0 + 10 * S)
    assert target.why is None
    target.close(T0 + 11 * S)
    opened = Recording(small_disk / "run.gputop")
    gaps = [record.label for record in opened.records() if isinstance(record, Event)]
    opened.close()
    assert gaps == ["50 records were not recorded: can't write the recording: the disk is full"]
    assert readable(small_disk / "run.gputop") == [*range(100), *range(150, 300)]
    sound(small_disk / "run.gputop")
    assert [path.name for path in small_disk.iterdir()] == ["run.gputop"]


def test_a_disk_that_stays_full_leaves_what_was_safe(small_disk: Path) -> None:
    spool = Spool()
    target = real(small_disk / "run.gputop", spool)
    spool.put([*describing(), *steps(50)])
    target.turn(T0)
    fill(small_disk)
    spool.put(steps(50, 50))
    target.close(T0 + S)
    assert target.ended
    assert spool.dropped == 50
    assert readable(small_disk / "run.gputop") == list(range(50))


def test_a_recording_that_keeps_some_minutes_stops_growing(tmp_path: Path) -> None:
    path, spool, sizes = tmp_path / "run.gputop", Spool(), []
    target = real(path, spool, Limits(floor_bytes=0, keep_ns=300 * S))
    spool.put(describing())
    for second in range(1800):
        spool.put(steps(20, 20 * second, every_ns=S // 20))
        target.turn(T0 + (second + 1) * S)
        sizes.append(target.bytes)
    target.close(T0 + 1800 * S)
    opened = Recording(path)
    info = opened.info()
    assert 300 * S <= info.to_ns - info.from_ns <= 362 * S
    assert info.runs[0].run.run_id == "a"
    opened.close()
    assert max(sizes[900:]) <= 1.1 * max(sizes[:900])
    sound(path)


def test_a_limit_on_file_sizes_is_a_full_disk(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    spool = Spool()
    target = real(tmp_path / "run.gputop", spool)
    spool.put([*describing(), *steps(50)])
    target.turn(T0)
    spool.put(steps(5000, 50))
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(f"{tmp_path}/run.gputop-wal").st_size + 8192, hard))
        target.turn(T0 + S)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert target.why is not None
    target.turn(T0 + 10 * S)
    assert target.why is None
    target.close(T0 + 11 * S)
    assert readable(tmp_path / "run.gputop") == list(range(5050))


@pytest.mark.parametrize("kind", ["ext4", "nfs4"])
@pytest.mark.parametrize("fate", ["moved", "moved elsewhere", "deleted", "replaced"])
def test_a_file_that_goes_away_is_followed(
    kind: str, fate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.recording.volume.file_system", lambda path: kind)
    path, kept = tmp_path / "run.gputop", tmp_path / "kept.gputop"
    if fate == "moved elsewhere":
        (tmp_path / "sub").mkdir()
        kept = tmp_path / "sub" / "kept.gputop"
    spool = Spool()
    target = real(path, spool)
    spool.put([*describing(), *steps(5)])
    target.turn(T0)
    if fate == "deleted":
        path.unlink()
    else:
        path.rename(kept)
    if fate == "replaced":
        path.write_text("something of the user's")
    spool.put(steps(5, 5))
    target.turn(T0 + S)
    target.close(T0 + 2 * S)
    new = tmp_path / "run-2.gputop" if fate == "replaced" else path
    assert target.path == new
    assert readable(new) == [5, 6, 7, 8, 9]
    opened = Recording(new)
    assert opened.info().runs[0].run.run_id == "a"
    opened.close()
    if fate != "deleted":
        assert readable(kept) == [0, 1, 2, 3, 4]
        opened = Recording(kept)
        assert opened.info().closed
        assert opened.warnings == []
        opened.close()
    if fate == "replaced":
        assert path.read_text() == "something of the user's"
    left = {one.name for one in tmp_path.rglob("*") if one.is_file()}
    assert left == {new.name} | ({kept.name} if fate != "deleted" else set()) | (
        {path.name} if fate == "replaced" else set()
    )
