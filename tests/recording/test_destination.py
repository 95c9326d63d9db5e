"""What a recording does when the disk, the file or the limits are in its way; by fakes, without a clock."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from gputop.recording import destination as module
from gputop.recording.destination import RETRY_NS, Destination, Limits, S
from gputop.recording.errors import Busy, Unreadable
from gputop.recording.naming import vacant, whereabouts
from gputop.recording.spool import Spool
from tests.recording.disks import GB, T0, FakeDisk, describing, full, run, steps

HERE = Path("/data/run.gputop")


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def spool() -> Spool:
    return Spool(max_records=100)


def opened(disk: FakeDisk, spool: Spool, limits: Limits = Limits()) -> Destination:  # noqa: B008
    return Destination(HERE, spool, limits, disk.system(), T0)


def test_each_turn_is_one_transaction(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    spool.put([run(), *steps(10)])
    target.turn(T0)
    target.turn(T0 + S)
    spool.put(steps(5, 10))
    target.turn(T0 + 2 * S)
    assert disk.sinks[0].commits == [11, 5]
    assert (target.steps, target.bytes, target.why) == (15, 1600, None)


def test_a_backlog_is_written_in_bites(disk: FakeDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BITE", 10)
    spool = Spool()
    target = opened(disk, spool)
    spool.put(steps(25))
    target.turn(T0)
    assert disk.sinks[0].commits == [10, 10, 5]


def test_a_full_disk_is_said_and_recording_goes_on_where_it_stopped(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.failing = full()
    for second in range(8):
        spool.put(steps(5, 5 * second))
        target.turn(T0 + second * S)
    assert target.why == "can't write the recording: the disk is full; trying again every 5 s"
    assert len(target.said) == 1
    disk.failing = None
    target.turn(T0 + 10 * S)
    assert target.why is None
    assert target.said[-1].endswith("recording again")
    (sink,) = disk.sinks
    assert sink.steps_kept() == list(range(40))
    assert sink.labels() == []


def test_what_found_no_room_is_a_gap_that_says_how_much(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    spool.put(describing())
    disk.failing = full()
    target.turn(T0)
    spool.put(steps(130))
    disk.failing = None
    target.turn(T0 + RETRY_NS)
    (sink,) = disk.sinks
    assert sink.labels() == ["30 records were not recorded: can't write the recording: the disk is full"]
    assert sink.steps_kept() == list(range(30, 130))
    gap = next(record for record in sink.kept if getattr(record, "kind", None) == "gap")
    assert (gap.t, gap.dur_ns, gap.run_id) == (T0, 29 * 10_000_000, "a")
    assert spool.dropped == 30


def test_it_is_tried_again_every_few_seconds_only(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.failing = full()
    spool.put(steps(1))
    target.turn(T0)
    disk.failing = None
    for second in (1, 2, 4):
        target.turn(T0 + second * S)
        assert target.why is not None
    target.turn(T0 + 5 * S)
    assert target.why is None


def test_a_clock_set_back_does_not_end_the_trying(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.failing = full()
    spool.put(steps(1))
    target.turn(T0)
    disk.failing = None
    target.turn(T0 - 3600 * S)
    assert target.why is None


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.EROFS, "the file system has become read-only"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EIO, "the disk reports an input/output error"),
        (errno.ENODEV, os.strerror(errno.ENODEV).lower()),
    ],
)
def test_each_trouble_has_its_words(disk: FakeDisk, spool: Spool, number: int, words: str) -> None:
    target = opened(disk, spool)
    disk.failing = OSError(number, os.strerror(number))
    spool.put(steps(1))
    target.turn(T0)
    assert target.why is not None
    assert words in target.why


def test_a_file_that_keeps_failing_is_opened_anew_and_nothing_is_lost(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    spool.put([run(), *steps(3)])
    disk.failing = OSError(errno.EIO, "no")
    for k in range(3):
        target.turn(T0 + k * RETRY_NS)
    assert disk.sinks[0].closed == 1
    disk.failing = None
    spool.put(steps(2, 3))
    target.turn(T0 + 3 * RETRY_NS)
    assert len(disk.sinks) == 2
    assert disk.sinks[1].steps_kept() == [0, 1, 2, 3, 4]
    assert target.steps == 5


def test_a_file_that_is_another_thing_by_then_ends_the_recording(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.failing, disk.opening = OSError(errno.EIO, "no"), Unreadable("the file is damaged; use gputop recover")
    spool.put(steps(1))
    for k in range(5):
        target.turn(T0 + k * RETRY_NS)
    assert target.ended
    assert target.why == "the file is damaged; use gputop recover"


def test_another_recorder_on_the_new_file_is_waited_for(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    del disk.names[HERE]
    disk.opening = Busy("run.gputop is being recorded by process 7")
    target.turn(T0)
    assert target.why is not None
    assert "process 7" in target.why
    disk.opening = None
    target.turn(T0 + RETRY_NS)
    assert target.why is None


def test_a_moved_file_is_ended_whole_and_a_new_one_begun(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    spool.put([*describing(), *steps(3)])
    target.turn(T0)
    disk.names[Path("/data/kept.gputop")] = disk.names.pop(HERE)
    spool.put(steps(3, 3))
    target.turn(T0 + S)
    old, again, new = disk.sinks
    assert old.closed == 1
    assert (again.path, again.closed) == (Path("/data/kept.gputop"), 1)
    assert (new.path, new.steps_kept()) == (HERE, [3, 4, 5])
    assert [type(record).__name__ for record in new.kept[:3]] == ["Run", "Loader", "Model"]
    assert new.labels() == ["the recording goes on in this file: an earlier part was moved away"]
    assert "moved to /data/kept.gputop" in target.said[0]
    assert target.steps_here == len(new.steps_kept()) < target.steps
    assert target.steps == 6


def test_a_deleted_file_is_let_go_and_a_new_one_begun(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    spool.put([run(), *steps(3)])
    target.turn(T0)
    del disk.names[HERE]
    spool.put(steps(3, 3))
    target.turn(T0 + S)
    old, new = disk.sinks
    assert old.closed == 1
    assert new.steps_kept() == [3, 4, 5]
    assert "was deleted" in target.said[0]


def test_a_file_put_in_its_place_is_not_written_to(
    disk: FakeDisk, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os.path, "lexists", lambda path: Path(path) in disk.names)
    target = opened(disk, spool)
    disk.names[HERE] = (1, 99)
    spool.put(steps(2))
    target.turn(T0)
    assert target.path == Path("/data/run-2.gputop")
    assert disk.sinks[-1].path == target.path


def test_a_folder_that_is_gone_is_waited_for(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.gone = FileNotFoundError(errno.ENOENT, "No such file or directory")
    target.turn(T0)
    assert target.why is not None
    assert "its folder is gone" in target.why


def test_too_little_room_pauses_it_until_there_is_some_more(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.free = 150_000_000
    spool.put(steps(3))
    target.turn(T0)
    assert target.why == "less than 200 MB is free on the disk; recording goes on when there is room"
    disk.free = 210_000_000
    target.turn(T0 + RETRY_NS)
    assert target.why is not None
    disk.free = 230_000_000
    target.turn(T0 + 2 * RETRY_NS)
    assert target.why is None
    assert disk.sinks[0].steps_kept() == [0, 1, 2]


def test_a_floor_that_was_asked_for_holds_on_any_disk(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool, Limits(floor_bytes=0))
    disk.free = 0
    target.turn(T0)
    assert target.why is None


def test_a_size_limit_ends_it(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool, Limits(max_bytes=1000))
    spool.put(steps(11))
    target.turn(T0)
    assert target.ended
    assert target.why == "the recording has reached its limit of 1 kB and was closed"
    assert disk.sinks[0].closed == 1
    target.turn(T0 + S)
    assert disk.sinks[0].closed == 1


def test_what_is_older_is_forgotten_once_a_minute(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool, Limits(keep_ns=3600 * S))
    for second in range(0, 181, 10):
        target.turn(T0 + second * S)
    assert disk.sinks[0].forgotten == [T0 + second * S - 3600 * S for second in (60, 120, 180)]


def test_closing_writes_what_waits_and_tries_a_full_disk_once_more(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.failing = full()
    spool.put(steps(3))
    target.turn(T0)
    disk.failing = None
    target.close(T0 + S)
    assert disk.sinks[0].steps_kept() == [0, 1, 2]
    assert disk.sinks[0].closed == 1
    assert (target.ended, target.why) == (True, None)
    target.close(T0 + S)
    assert disk.sinks[0].closed == 1


def test_closing_on_a_full_disk_says_so(disk: FakeDisk, spool: Spool) -> None:
    target = opened(disk, spool)
    disk.failing = full()
    spool.put(steps(3))
    target.close(T0)
    assert target.ended
    assert target.why is not None
    assert "the disk is full" in target.why
    assert spool.dropped == 3


def test_a_file_is_known_by_its_inode_wherever_it_goes(tmp_path: Path) -> None:
    path, moved = tmp_path / "a", tmp_path / "b"
    with open(path, "w"):
        wanted = module.identity(path)
        assert wanted is not None
        assert whereabouts(wanted) == path
        path.rename(moved)
        assert module.identity(path) is None
        assert whereabouts(wanted) == moved
        moved.unlink()
        assert whereabouts(wanted) is None


def test_a_free_name_keeps_the_suffix(tmp_path: Path) -> None:
    path = tmp_path / "run.gputop"
    assert vacant(path) == path
    for taken in (path, tmp_path / "run-2.gputop"):
        taken.touch()
    assert vacant(path) == tmp_path / "run-3.gputop"


@pytest.mark.parametrize(("total", "floor"), [(1000 * GB, "200 MB"), (1 * GB, "50 MB")])
def test_the_floor_of_a_small_disk_is_lower(disk: FakeDisk, spool: Spool, total: int, floor: str) -> None:
    target = opened(disk, spool)
    disk.free, disk.total = 40_000_000, total
    target.turn(T0)
    assert target.why is not None
    assert f"less than {floor} is free" in target.why
