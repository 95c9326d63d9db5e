"""The demo's training process: real, watched through the real publisher, and never left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gputop import records as rec
from gputop.simulation import demo
from gputop.simulation.child import Child, arguments
from gputop.simulation.clock import RealClock
from gputop.simulation.state import read
from gputop.simulation.whatif import Unwatched
from gputop.sources.simulated import SimulatedSource
from gputop.wire.cards import process_start

PARENT = """
import sys, time
from gputop.simulation import demo
process = demo.start("gpu-bound")
while not process.state_path.exists(): time.sleep(0.05)
print(process.pid, process.folder, flush=True)
time.sleep(60)
"""


def eventually(condition: Callable[[], bool], seconds: float = 20.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def folders() -> set[Path]:
    return set(Path("/tmp").glob(f"{demo.PREFIX}{os.getpid()}-*"))


@pytest.fixture
def running() -> Iterator[demo.DemoProcess]:
    process = demo.start("small-model", speed=2.0)
    yield process
    process.stop()


def test_it_writes_its_machines_state_and_leaves_nothing_when_stopped(running: demo.DemoProcess) -> None:
    assert eventually(running.state_path.exists)
    state = read(running.state_path)
    assert state is not None
    assert state.pid == running.pid
    assert running.poll() is None
    running.stop()
    assert running.poll() == 0
    assert process_start(running.pid) is None
    assert not running.folder.exists()
    running.stop()


def test_it_ends_by_itself_after_its_seconds() -> None:
    process = demo.start("gpu-bound", seconds=0.5)
    assert eventually(lambda: process.poll() is not None)
    assert process.poll() == 0
    assert not process.state_path.exists()
    process.stop()
    assert not folders()


def test_it_ends_and_cleans_up_when_its_parent_is_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid, folder = parent.stdout.readline().decode().split()
    assert process_start(int(pid)) is not None
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert eventually(lambda: process_start(int(pid)) is None)
    assert eventually(lambda: not Path(folder).exists())


def test_what_a_killed_pair_left_is_swept_by_the_next_demo_and_the_living_is_spared() -> None:
    dead = Path(f"/tmp/{demo.PREFIX}{os.getpid()}-1-left")
    living = Path(f"/tmp/{demo.PREFIX}{os.getpid()}-{process_start(os.getpid())}-mine")
    foreign = Path(f"/tmp/{demo.PREFIX}nobody-{os.getpid()}")
    for folder in (dead, living, foreign):
        folder.mkdir()
    (dead / "machine.state").write_bytes(b"x")
    try:
        demo.sweep()
        assert [folder.exists() for folder in (dead, living, foreign)] == [False, True, True]
    finally:
        for folder in (living, foreign):
            folder.rmdir()


@pytest.mark.parametrize(("scenario", "speed", "error"), [("nothing", 1.0, KeyError), ("sync", -1.0, ValueError)])
def test_a_wrong_start_starts_nothing(scenario: str, speed: float, error: type[Exception]) -> None:
    with pytest.raises(error):
        demo.start(scenario, speed=speed)
    assert not folders()


def test_a_child_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.simulation.demo.STATE_FILE", "other")
    process = demo.start("gpu-bound", seed=0, seconds=float("nan"))
    (process.folder / "stderr").write_text("first\nthe last word\n")
    assert process.why() == "the last word"
    process.stop()
    assert process.why() == ""


def test_a_watched_demo_tells_steps_device_and_machine() -> None:
    source = SimulatedSource("sync", speed=2.0, interval_s=0.5)
    found: list[rec.AnyRecord] = []

    def steps() -> list[rec.Step]:
        return [record for record in found if isinstance(record, rec.Step) and not record.partial]

    def enough() -> bool:
        found.extend(source.poll(0.1))
        kinds = {type(record) for record in found}
        return len(steps()) >= 20 and {rec.Gpu, rec.Host, rec.Process, rec.Model, rec.Loader} <= kinds

    try:
        assert eventually(enough)
    finally:
        source.close()
    run = next(record for record in found if isinstance(record, rec.Run))
    assert (run.simulated, run.device, run.cores_allowed, run.script) == (True, "sim:0", 12, "demo sync")
    late = steps()[8:]
    assert {step.samples for step in late} == {512}
    assert {step.sync_count for step in late} == {1536}
    for step in late:
        assert sum(step.phases_ns.values()) <= step.dur_ns
        assert step.phases_ns["sync"] > 0.7 * step.dur_ns
        assert (step.h2d_bytes, step.h2d_pageable_bytes) == (77 << 20, 0)
        assert [(site.call, site.count) for site in step.sync_sites or []] == [(".item()", 1536)]
    idle = [step.gpu_idle_ns["sync"] / step.dur_ns for step in late if "sync" in (step.gpu_idle_ns or {})]
    assert len(idle) > len(late) / 2
    assert min(idle) > 0.3
    gpus = [record for record in found if isinstance(record, rec.Gpu)]
    assert all(gpu.simulated for gpu in gpus)
    assert {gpu.gpu_uuid for gpu in gpus} == {run.gpu_uuid}
    process = [record for record in found if isinstance(record, rec.Process)][-1]
    assert (process.pid, process.run_id) == (run.pid, run.run_id)


def test_the_loop_runs_in_real_time_and_ends_when_told(tmp_path: Path) -> None:
    child = Child(arguments(["host-work", "--folder", str(tmp_path), "--seconds", "0.6", "--speed", "4"]), stdin=None)
    begun = time.monotonic()
    steps = child.run(Unwatched())
    taken = time.monotonic() - begun
    assert 0.5 < taken < 5
    assert 5 <= steps <= taken * 4 / 0.06
    assert read(tmp_path / "machine.state") is not None


def test_a_closed_standard_input_ends_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = Child(arguments(["gpu-bound", "--folder", str(tmp_path)]), stdin=reader)
    child.tick(0)
    assert not child.over
    os.close(writer)
    child.tick(0)
    assert child.over
    os.close(reader)


def test_a_vanished_folder_ends_it(tmp_path: Path) -> None:
    child = Child(arguments(["gpu-bound", "--folder", str(tmp_path / "gone")]), stdin=None)
    child.tick(0)
    assert child.over


def test_real_waiting_is_woken_for_ticks_and_never_ends_early() -> None:
    ticks: list[int] = []
    clock = RealClock(5_000_000, ticks.append)
    begun = clock.now()
    clock.wait_until(begun + 30_000_000)
    assert clock.now() - begun >= 30_000_000
    assert 1 <= len(ticks) <= 7
