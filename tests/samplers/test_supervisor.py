"""The parent's side, on an injected clock with a child that does what the test says."""

from __future__ import annotations

import json

import pytest

from gputop.records import Gpu, Sampler
from gputop.samplers.frames import frame
from gputop.samplers.supervisor import Supervisor

S = 1_000_000_000
GPU = Gpu(t=1, host="box", gpu_uuid="GPU-1", util_pct=5)
OK = Sampler(t=1, host="box", backend="nvml", state="ok")


class FakeChild:
    """A child whose pipe, status and call are set by the test."""

    pid = 4242
    fd = 99

    def __init__(self) -> None:
        self.pipe = b""
        self.status: int | None = None
        self.calling: tuple[str, int] | None = None
        self.dies = True
        self.killed = self.released = False
        self.room = 1 << 20
        self.told = b""

    def read(self, size: int) -> bytes | None:
        data, self.pipe = self.pipe[:size], self.pipe[size:]
        return data or None

    def write(self, data: bytes) -> int:
        taken = data[: self.room]
        self.told += taken
        self.room -= len(taken)
        return len(taken)

    def poll(self) -> int | None:
        return self.status

    def kill(self) -> None:
        self.killed = True
        if self.dies and self.status is None:
            self.status = -9

    def call(self) -> tuple[str, int] | None:
        return self.calling

    def release(self) -> None:
        self.released = True


class Stage:
    """A supervisor, its children so far, and the clock."""

    def __init__(self) -> None:
        self.now = 1_000 * S
        self.children: list[FakeChild] = []
        self.refuse: OSError | None = None
        self.supervisor = Supervisor("gpu", host="box", clock=lambda: self.now, spawn=self._spawn)

    def _spawn(self) -> FakeChild:
        if self.refuse is not None:
            raise self.refuse
        self.children.append(FakeChild())
        return self.children[-1]

    @property
    def child(self) -> FakeChild:
        return self.children[-1]

    def speaks(self) -> None:
        self.child.pipe += frame([GPU, OK])

    def after(self, seconds: float) -> list[Sampler]:
        self.now += int(seconds * S)
        return self.supervisor.tick(self.now)

    def seconds(self, count: int) -> list[Sampler]:
        return [said for _ in range(count) for said in self.after(1)]


@pytest.fixture
def stage() -> Stage:
    stage = Stage()
    stage.supervisor.start()
    return stage


def test_records_are_read_and_a_child_that_speaks_is_left_alone(stage: Stage) -> None:
    for _ in range(30):
        stage.speaks()
        assert stage.after(1) == []
        assert stage.supervisor.read() == [GPU, OK]
    assert len(stage.children) == 1


def test_a_silent_call_is_named_after_two_seconds_killed_after_fifteen_and_restarted(stage: Stage) -> None:
    stage.speaks()
    stage.after(0)
    stage.child.calling = ("nvmlDeviceGetPowerUsage gpu 1", 0)
    assert stage.after(1.9) == []
    (said,) = stage.after(0.2)
    assert (said.state, said.call, said.backend) == ("silent", "nvmlDeviceGetPowerUsage gpu 1", "nvml")
    assert said.silent_ns == 2_100_000_000
    stage.after(12.8)
    assert not stage.child.killed
    stage.after(0.1)
    assert stage.child.killed
    assert stage.supervisor.fileno() == -1
    (buried,) = stage.after(0.1)
    assert buried.state == "silent"
    assert stage.child.released
    assert stage.after(0.8) == []
    (said,) = stage.after(0.2)
    assert (said.state, said.call) == ("restarted", "nvmlDeviceGetPowerUsage gpu 1")
    assert "15 s" in (said.why or "")
    assert len(stage.children) == 2


def hangs(stage: Stage, call: str) -> dict[str, int]:
    """The child hangs in a call until it is killed; what the next one is told to leave out, in s."""
    stage.child.calling = (call, 0)
    before = len(stage.children)
    while len(stage.children) == before:
        stage.after(1)
        assert not stage.child.killed or stage.child.status is not None
    told = [json.loads(line) for line in stage.child.told.splitlines()]
    return {call: wait // S for call, wait in (told[-1]["hung"] if told else {}).items()}


def test_a_call_in_which_a_child_hung_is_left_out_by_the_next_one_longer_each_time(stage: Stage) -> None:
    said = []
    for _ in range(5):
        stage.speaks()
        stage.after(1)
        said.append(hangs(stage, "nvmlDeviceGetPowerUsage gpu 3"))
    assert said == [{"nvmlDeviceGetPowerUsage gpu 3": wait} for wait in (60, 240, 960, 3600, 3600)]


def test_two_calls_that_hang_from_the_start_are_both_left_out(stage: Stage) -> None:
    assert hangs(stage, "nvmlDeviceGetName gpu 0").keys() == {"nvmlDeviceGetName gpu 0"}
    assert len(hangs(stage, "nvmlDeviceGetUUID gpu 1")) == 2
    for _ in range(5):
        stage.speaks()
        assert stage.after(1) == []


def test_where_every_call_hangs_it_is_the_driver_and_none_is_left_out(stage: Stage) -> None:
    said = [len(hangs(stage, f"nvmlDeviceGet{name} gpu 0")) for name in ("A", "B", "C", "D")]
    assert said == [1, 2, 0, 1]


def test_a_call_to_no_device_is_never_left_out(stage: Stage) -> None:
    assert [hangs(stage, "nvmlInitWithFlags") for _ in range(2)] == [{}, {}]


def test_while_the_driver_initialises_it_is_given_a_minute(stage: Stage) -> None:
    stage.child.calling = ("nvmlInitWithFlags", 0)
    assert {said.state for said in stage.seconds(59)} == {"silent"}
    assert not stage.child.killed
    stage.after(1)
    assert stage.child.killed


def test_a_child_that_is_still_starting_is_not_called_silent(stage: Stage) -> None:
    assert stage.seconds(9) == []
    assert [said.state for said in stage.seconds(1)] == ["silent"]


def test_a_child_stuck_in_the_kernel_is_not_waited_for_and_gets_no_second_beside_it(stage: Stage) -> None:
    stage.speaks()
    stage.after(0)
    stage.child.dies = False
    stage.child.calling = ("nvmlDeviceGetName gpu 0", 0)
    stage.seconds(300)
    assert len(stage.children) == 1
    said = stage.after(1)[0]
    assert (said.state, said.call) == ("silent", "nvmlDeviceGetName gpu 0")
    assert "inside the driver" in (said.why or "")
    stage.child.status = -9
    stage.seconds(3)
    assert len(stage.children) == 2


def test_restarts_back_off_up_to_a_minute_and_start_anew_after_a_healthy_one(stage: Stage) -> None:
    waits = []
    for _ in range(8):
        stage.child.status = 1
        stage.after(0)
        began, count = stage.now, len(stage.children)
        while len(stage.children) == count:
            stage.after(0.5)
        waits.append((stage.now - began) / S)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    for _ in range(61):
        stage.speaks()
        stage.after(1)
        stage.supervisor.read()
    stage.speaks()
    stage.after(0.5)
    stage.after(1)
    stage.after(1)
    stage.child.status = 1
    stage.after(0.1)
    stage.after(1.1)
    assert len(stage.children) == 10


def test_a_corrupt_frame_is_one_fault_and_a_restart(stage: Stage) -> None:
    stage.speaks()
    stage.child.pipe += b"a library printed this"
    assert stage.supervisor.read() == [GPU, OK]
    assert stage.supervisor.faults == 1
    assert stage.child.killed
    stage.seconds(3)
    assert len(stage.children) == 2
    stage.speaks()
    assert stage.supervisor.read() == [GPU, OK]


def test_a_parent_that_was_stopped_itself_does_not_blame_its_child(stage: Stage) -> None:
    stage.speaks()
    stage.after(0)
    stage.supervisor.read()
    stage.child.pipe += frame([GPU]) * 40
    assert stage.after(100) == []
    assert not stage.child.killed
    assert len(stage.supervisor.read()) == 40


def test_what_was_told_reaches_a_full_child_later_and_a_new_child_at_once(stage: Stage) -> None:
    stage.child.room = 5
    stage.supervisor.tell({"pids": {1: "a"}})
    stage.supervisor.tell({"pids": {2: "b"}})
    assert stage.child.told == b'{"pid'
    stage.child.room = 1 << 20
    stage.after(0.1)
    stage.after(0.1)
    assert stage.child.told == b'{"pids":{"1":"a"}}\n{"pids":{"2":"b"}}\n'
    stage.child.status = 1
    stage.seconds(2)
    assert len(stage.children) == 2
    assert stage.child.told == b'{"pids":{"2":"b"}}\n'


def test_a_child_that_cant_be_started_is_said_and_tried_again() -> None:
    stage = Stage()
    stage.refuse = OSError(11, "Resource temporarily unavailable")
    stage.supervisor.start()
    (said,) = stage.after(0)
    assert "temporarily unavailable" in (said.why or "")
    stage.refuse = None
    stage.seconds(2)
    assert len(stage.children) == 1


def test_closing_kills_and_says_nothing_more(stage: Stage) -> None:
    stage.child.dies = False
    stage.supervisor.close()
    assert stage.child.killed
    assert stage.child.released
    assert stage.after(100) == []
    assert len(stage.children) == 1
    stage.supervisor.close()
