"""Trainings without a publisher: what begins and ends as a run by the driver's lists of processes alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.records import Event, Gpu, GpuProcess, Run
from gputop.sources.unannounced import MISSING, Unannounced, holds_driver
from tests.nvml_stub import StubState, Unbuildable, build, env

PID = os.getpid()


def listed(*pids: int, uuid: str = "GPU-1", **fields: object) -> Gpu:
    rows = [GpuProcess(pid=pid, name="python", cmdline="python train.py --lr 1") for pid in pids]
    return Gpu(t=1, host="box", gpu_uuid=uuid, name="H100", processes=rows, **fields)  # type: ignore[arg-type]


def test_a_process_that_the_driver_lists_twice_becomes_a_run_and_ends_when_it_is_gone() -> None:
    found = Unannounced("box", lambda _pid: True)
    assert found.records([listed(PID)], {}, 1) == []
    (run,) = found.records([listed(PID)], {}, 2)
    assert isinstance(run, Run)
    assert (run.pid, run.host, run.gpu_uuid, run.gpu_name, run.script) == (PID, "box", "GPU-1", "H100", "train.py")
    assert found.made(run.run_id)
    assert found.records([listed(PID)], {}, 3) == []
    ends = [found.records([listed()], {}, 4) for _ in range(MISSING)]
    assert ends[:-1] == [[]] * (MISSING - 1)
    assert ends[-1] == [Event(t=4, kind="exit", run_id=run.run_id)]


def test_who_speaks_for_himself_is_left_to_it_and_a_run_made_up_before_ends_at_once() -> None:
    found = Unannounced("box", lambda _pid: True)
    for _ in range(3):
        assert found.records([listed(PID)], {PID: None}, 1) == []
    found.records([listed(PID)], {}, 2)
    (run,) = found.records([listed(PID)], {}, 3)
    (end,) = found.records([listed(PID)], {PID: None}, 4)
    assert isinstance(end, Event)
    assert isinstance(run, Run)
    assert (end.kind, end.run_id) == ("exit", run.run_id)


def test_a_number_that_has_become_another_process_is_another_training() -> None:
    found = Unannounced("box", lambda _pid: True)

    def of(start: int) -> Gpu:
        row = GpuProcess(pid=PID, name="python", start_ticks=start)
        return Gpu(t=1, host="box", gpu_uuid="GPU-1", processes=[row])

    said = [found.records([of(100)], {PID: 7}, 1) for _ in range(2)]  # what has announced itself was an earlier one
    (run,) = said[1]
    said = [found.records([of(500)], {}, 2) for _ in range(MISSING)]
    later = next(one for one in said[1] if isinstance(one, Run))
    assert isinstance(run, Run)
    assert (run.start_ticks, later.start_ticks) == (100, 500)
    assert said[MISSING - 1] == [Event(t=2, kind="exit", run_id=run.run_id)]
    assert later.run_id != run.run_id


def test_desktops_foreign_namespaces_and_simulated_devices_are_no_trainings() -> None:
    strange, simulated = Unannounced("box", lambda _pid: False), Unannounced("box", lambda _pid: True)
    for _ in range(3):
        assert strange.records([listed(PID)], {}, 1) == []
        assert simulated.records([listed(PID, simulated=True)], {}, 1) == []
    assert not holds_driver(2**22 + 1)
    assert not holds_driver(PID)


@pytest.fixture
def driver(tmp_path: Path) -> tuple[StubState, dict[str, str]]:
    try:
        folder = build(tmp_path)
    except Unbuildable as error:
        pytest.skip(str(error))
    state = StubState(tmp_path / "gpus")
    return state, {**os.environ, **env(folder, state), "GPUTOP_DIR": str(tmp_path), "GPUTOP_DIR_ONLY": "1"}


CHILD = """
import mmap, sys
file = open(sys.argv[1], "r+b")
held = mmap.mmap(file.fileno(), 0)
print("ready", flush=True)
while True:
    pass
"""


def test_once_judges_a_training_that_has_no_publisher(tmp_path: Path, driver: tuple[StubState, dict[str, str]]) -> None:
    state, environment = driver
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(bytes(4096))
    child = subprocess.Popen([sys.executable, "-c", CHILD, str(library)], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        child.stdout.readline()
        work = {"0.util": 99, "0.sm_clock": 1980, "0.procs": f"{child.pid}:1073741824:C"}
        state.set({"devices": 1} | work)
        said = subprocess.run(
            [sys.executable, "-m", "gputop", "once", "--json", "--seconds", "15"],
            env=environment, capture_output=True, text=True, timeout=150, check=True,
        )  # fmt: skip
    finally:
        child.kill()
        child.communicate()
    (run,) = [run for run in json.loads(said.stdout)["runs"] if run["pid"] == child.pid]
    assert run["state"] == "training"
    assert run["verdict"]["cause"] == "gpu-bound"
    assert run["verdict"]["clock"] == "sampled"
