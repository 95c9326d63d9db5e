"""The recorder's thread: `add` and `state` never wait for it, and closing has an end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.recording.destination import System
from gputop.recording.errors import Busy
from gputop.recording.recorder import Recorder, open_writer
from gputop.recording.spool import Spool
from gputop.recording.state import RecordingState
from tests.recording.disks import T0, FakeDisk, FakeSink, full, run, steps

HERE = Path("/data/run.gputop")


class StuckDisk(FakeDisk):
    """A disk on which a commit hangs until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.entered, self.go = threading.Event(), threading.Event()

    def open(self, path: Path, now_ns: int) -> FakeSink:
        sink = super().open(path, now_ns)
        commit = sink.commit

        def stuck(now_ns: int) -> None:
            self.entered.set()
            assert self.go.wait(20)
            commit(now_ns)

        sink.commit = stuck  # type: ignore[method-assign]
        return sink


def recorder(disk: FakeDisk, spool: Spool | None = None, monotonic: Callable[[], float] = time.monotonic) -> Recorder:
    return Recorder(
        HERE, clock=lambda: T0, system=disk.system(), spool=spool, monotonic=monotonic, period_s=0.01
    ).start()


def until(made: Recorder, true: Callable[[RecordingState], bool]) -> RecordingState:
    """The first state of which something is true."""
    deadline = time.monotonic() + 60
    while not true(state := made.state()):
        assert time.monotonic() < deadline, state
        time.sleep(0.005)
    return state


def test_what_is_added_is_in_the_file_soon_and_all_of_it_after_closing() -> None:
    disk = FakeDisk()
    made = recorder(disk)
    made.add([run(), *steps(5)])
    state = until(made, lambda state: state.steps == 5)
    assert (state.state, state.why, state.path, state.since_ns) == ("recording", None, str(HERE), T0)
    made.add(steps(5, 5))
    made.close()
    assert disk.sinks[0].steps_kept() == list(range(10))
    assert made.state().state == "ended"
    assert made.state().why is None
    made.close()
    made.add(steps(1))
    assert disk.sinks[0].closed == 1


def test_nothing_is_written_before_the_start() -> None:
    disk = FakeDisk()
    made = Recorder(HERE, clock=lambda: T0, system=disk.system(), period_s=0.01)
    made.add([run(), *steps(5)])
    assert disk.sinks[0].commits == []
    made.close()
    assert disk.sinks[0].steps_kept() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("error", [Busy("being recorded by process 7"), OSError(13, "Permission denied")])
def test_a_file_that_cannot_be_opened_is_said_at_once(error: Exception) -> None:
    disk = FakeDisk()
    disk.opening = error
    with pytest.raises(type(error)):
        recorder(disk)


def test_a_file_that_will_not_open_in_time_is_said_and_let_go_of_when_it_does() -> None:
    disk, go = FakeDisk(), threading.Event()
    sinks = disk.sinks

    def stuck(path: Path, now_ns: int) -> FakeSink:
        assert go.wait(20)
        return disk.open(path, now_ns)

    system = System(open=stuck, identity=disk.identity, free=disk.room, whereabouts=disk.whereabouts)
    with pytest.raises(TimeoutError, match="doesn't answer"):
        Recorder(HERE, clock=lambda: T0, system=system, period_s=0.01, open_s=0.05)
    go.set()
    deadline = time.monotonic() + 60
    while not (sinks and sinks[0].closed):
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_disk_that_hangs_stops_neither_add_nor_state_nor_close() -> None:
    disk, now = StuckDisk(), [0.0]
    made = recorder(disk, Spool(max_records=100), lambda: now[0])
    made.add(steps(1))
    assert disk.entered.wait(60)
    began = time.monotonic()
    for k in range(50):
        made.add(steps(10, 10 * k))
    now[0] = 12.0
    state = made.state()
    assert (state.state, state.dropped) == ("waiting", 400)
    assert state.why == "the disk has not answered for 12 s; recording goes on when it does"
    made.close(timeout_s=0.05)
    assert time.monotonic() - began < 30
    state = made.state()
    assert state.state == "ended"
    assert state.why is not None
    assert "didn't answer" in state.why
    disk.go.set()
    until(made, lambda state: state.steps > 0)


def test_a_full_disk_is_told_and_recovered_from() -> None:
    disk = FakeDisk()
    clock = [T0]
    made = Recorder(HERE, clock=lambda: clock[0], system=disk.system(), period_s=0.01).start()
    disk.failing = full()
    made.add(steps(3))
    state = until(made, lambda state: state.state == "waiting")
    assert state.why is not None
    assert "the disk is full" in state.why
    disk.failing = None
    clock[0] += 5_000_000_000
    state = until(made, lambda state: state.state == "recording")
    assert len(state.said) == 2
    made.close()


def test_a_fault_of_our_own_is_told_and_hangs_nothing() -> None:
    clock = iter([T0, T0])
    made = Recorder(HERE, clock=lambda: next(clock), system=FakeDisk().system(), period_s=0.01).start()
    state = until(made, lambda state: state.state == "ended")
    assert state.why is not None
    assert "StopIteration" in state.why
    made.close()


def test_a_limit_ends_it_and_what_comes_later_is_not_kept() -> None:
    disk, spool = FakeDisk(), Spool()
    made = Recorder(HERE, max_bytes=500, clock=lambda: T0, system=disk.system(), spool=spool, period_s=0.01).start()
    made.add(steps(5))
    state = until(made, lambda state: state.state == "ended")
    assert state.why is not None
    assert "its limit of 500 B" in state.why
    made.add(steps(5))
    assert len(spool) == 0
    made.close()


@pytest.mark.parametrize(("kind", "journal"), [("nfs4", "delete"), ("ext4", "wal")])
def test_a_network_file_system_gets_a_rollback_journal(
    kind: str, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.recording.volume.file_system", lambda path: kind)
    sink = open_writer(tmp_path / "run.gputop", T0, True)
    sink.add(run())
    sink.commit(T0)
    assert (tmp_path / "run.gputop-wal").exists() is (journal == "wal")
    assert not (tmp_path / "run.gputop-journal").exists()
    sink.close(T0)
    assert [path.name for path in tmp_path.iterdir()] == ["run.gputop"]
