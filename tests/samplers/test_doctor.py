"""What doctor says of the samplers' needs."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import msgspec
import pytest

from gputop.samplers import doctor
from gputop.samplers.doctor import Check
from tests.nvml_stub import StubState, env

CODE = (
    "import msgspec, sys; from gputop.samplers import doctor; "
    "sys.stdout.buffer.write(msgspec.json.encode(doctor.checks()))"
)


def checks(variables: dict[str, str]) -> dict[str, Check]:
    said = subprocess.run([sys.executable, "-c", CODE], capture_output=True, env=variables, check=True).stdout
    return {check.name: check for check in msgspec.json.decode(said, type=list[Check])}


def test_devices_their_driver_and_what_is_wrong_with_one(nvml_dir: Path, tmp_path: Path) -> None:
    state = StubState(tmp_path / "gpus").set(
        {"driver": "570.1", "0.name": "H100", "0.gpm": 1, "error.nvmlDeviceGetHandleByIndex_v2 1": 4}, devices=3
    )
    found = checks(env(nvml_dir, state))
    assert found["NVML"].finding == "driver 570.1"
    assert (found["GPU 0"].state, found["GPU 0"].finding) == ("ok", "H100; SM activity counters (GPM)")
    assert found["GPU 1"].state == "fail"
    assert "/dev/nvidia1" in (found["GPU 1"].mend or "")
    assert "no SM activity" in found["GPU 2"].finding


@pytest.mark.parametrize(("code", "state"), [(9, "warn"), (18, "fail"), (4, "fail")])
def test_a_driver_that_does_not_start_has_a_mend(nvml_dir: Path, tmp_path: Path, code: int, state: str) -> None:
    found = checks(env(nvml_dir, StubState(tmp_path / "gpus").set({"error.nvmlInitWithFlags *": code})))
    assert found["NVML"].state == state
    assert found["NVML"].mend


def test_a_shadowed_binding_fails() -> None:
    def load() -> object:
        raise doctor.Absent("another module has taken the name pynvml: pip uninstall pynvml")

    assert doctor.nvml(load) == [
        Check("NVML binding", "fail", "another module has taken the name pynvml", "pip uninstall pynvml")
    ]


def test_a_check_that_breaks_is_a_finding_and_not_a_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Check]:
        raise RuntimeError("no luck")

    broken.__name__ = "pressure"
    monkeypatch.setattr(doctor, "pressure", broken)
    found = {check.name: check for check in doctor.checks()}
    assert (found["pressure"].state, found["pressure"].finding) == ("fail", "RuntimeError: no luck")
    assert {"host figures", "/proc", "CPU limit", "stack sampling"} <= found.keys()


def test_a_quota_below_the_cores_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.cgroup, "of", lambda _pid: doctor.cgroup.Limit(0.5, 0))
    (check,) = doctor.cpu_limit()
    assert check.state == "warn"
    assert "0.5 of" in check.finding


def test_figures_that_a_gpu_lacks_or_refuses_are_named_and_the_cost_of_asking(nvml_dir: Path, tmp_path: Path) -> None:
    state = StubState(tmp_path / "gpus").set(
        {"error.nvmlDeviceGetPowerUsage 0": 3, "error.nvmlDeviceGetTemperature 1": 999, "2.procs": "0:1:C 7:5:C"},
        devices=3,
    )
    found = checks(env(nvml_dir, state))
    assert "power_w" in found["GPU 0 figures"].finding
    assert found["GPU 1 figures"].state == "warn"
    assert found["GPU 1 figures"].finding.startswith("asking failed for temp_c (")
    assert "ABI mismatch" in found["GPU 2 figures"].finding
    assert found["sampling cost"].state == "ok"


def test_a_driver_that_hangs_is_a_failed_check_and_not_a_hung_doctor() -> None:
    gate = threading.Event()

    def hang() -> list[Check]:
        gate.wait(30)
        return []

    (check,) = doctor.in_time(hang, "NVML", patience_s=0.05)
    gate.set()
    assert (check.name, check.state) == ("NVML", "fail")
    assert "has not answered" in check.finding


def test_a_fault_of_a_check_is_a_failed_check() -> None:
    def broken() -> list[Check]:
        raise ValueError("odd")

    assert doctor.asked(broken) == [Check("broken", "fail", "ValueError: odd")]


def test_a_proc_of_another_pid_namespace_is_a_warning_with_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.readlink", lambda path: "4711" if path == "/proc/self" else path)
    (check,) = doctor.proc_readable()
    assert (check.state, "another pid namespace" in check.finding) == ("warn", True)
    assert "--mount-proc" in (check.mend or "")
