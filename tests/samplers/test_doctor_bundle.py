"""The bundle for a bug report names nobody: no user, host, path, command line, device or process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.cli.bundle import Bundle
from gputop.samplers.doctor import Check
from tests.cli.processes import environment
from tests.nvml_stub import StubState, env

UUID = "GPU-5eed0000-0000-4000-8000-00000000abcd"


def doctor(*words: str, directory: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gputop", "doctor", *words],
        env=environment(directory, variables), capture_output=True, text=True, check=False, timeout=150,
    )  # fmt: skip


@pytest.fixture
def machine(nvml_dir: Path, tmp_path: Path) -> dict[str, str]:
    state = StubState(tmp_path / "gpus").set({
        "driver": "570.1", "0.name": "H100", "0.uuid": UUID, "0.procs": f"{os.getpid()}:1000:C",
        "error.nvmlDeviceGetPowerUsage 0": 3, "error.nvmlDeviceGetTemperature 0": 999,
    })  # fmt: skip
    named = {"USER": "annabella", "HOME": "/home/annabella", "CUDA_VISIBLE_DEVICES": f"{UUID},1"}
    stub = env(nvml_dir, state)
    return {**{name: stub[name] for name in ("LD_LIBRARY_PATH", "GPUTOP_NVML_STUB")}, **named}


def test_a_bundle_tells_what_works_and_names_nobody(machine: dict[str, str], short_dir: Path) -> None:
    done = doctor("--bundle", directory=short_dir, variables=machine)
    said = done.stdout
    secrets = ["annabella", os.uname().nodename, UUID, UUID[4:], str(short_dir), str(Path.cwd()), "pytest", sys.prefix]
    assert [name for name in secrets if re.search(rf"\b{re.escape(name.lstrip('/'))}\b", said)] == []
    kept = ["NVML: driver 570.1", "asking failed for temp_c", '"name": "H100"', "CUDA_VISIBLE_DEVICES is set (2: GPU",
            "msgspec ", "### machine", '"unsupported":', "power_w"]  # fmt: skip
    assert [words for words in kept if words not in said] == []


PLANTED = {
    "a user's full path in an error": "PermissionError: [Errno 13] denied: '/data/Anna Bella/moonshot v2/x.so'",
    "a path without quotes": "can't open /data/moonshot/run 7: not found",
    "a home": "~annabella/moonshot is full",
    "who built the driver": "NVRM version: 570.1  Release Build  (annabella@dgx-17)",
    "a command line": "killed: /opt/moonshot/bin/train --key hunter22 (pid 7)",
    "a token of the environment": "401 for hf_moonshottoken",
    "the host in full": "box-moonshot.corp.example refused",
    "a device": f"no handle for {UUID}",
    "an address": "10.1.2.3 refused",
    "the place to meet": "/srv/moon shot/gt (GPUTOP_DIR): no such directory",
}
"""Findings as exceptions and drivers word them."""


@pytest.mark.parametrize("what", PLANTED)
def test_what_stands_in_odd_places_of_a_finding_does_not_leave(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"USER": "annabella", "SUDO_USER": "annabella", "HF_TOKEN": "hf_moonshottoken", "API_KEY": "hunter22",
              "HOSTNAME": "box-moonshot.corp.example", "GPUTOP_DIR": "/srv/moon shot/gt", "STY": "77.moonshot",
              "TMUX": "/tmp/tmux-7/moonshot,1,0"}  # fmt: skip
    for name, value in places.items():
        monkeypatch.setenv(name, value)
    check = Check("NVML", "fail", PLANTED[what], PLANTED[what])
    said = Bundle([check], private=False).text().lower()
    for secret in ("moonshot", "moon shot", "anna", "hunter22", "dgx-17", "corp.example", "00000000abcd", "10.1.2.3"):
        assert secret not in said, said[:600]
    assert PLANTED[what].lower() in Bundle([check], private=True).text().lower()


def test_what_a_mend_says_of_the_system_stays() -> None:
    mend = "put /usr/lib/wsl/lib on LD_LIBRARY_PATH, see /dev/nvidiactl and /proc/1: or /opt/rocm/share/amd_smi"
    assert mend in Bundle([Check("NVML", "fail", "no driver (libnvidia-ml.so.1)", mend)], private=False).text()


def test_on_request_names_and_paths_are_left_in(machine: dict[str, str], short_dir: Path) -> None:
    said = doctor("--bundle", "--private", directory=short_dir, variables=machine).stdout
    assert str(short_dir) in said
    assert f"CUDA_VISIBLE_DEVICES={UUID},1" in said


def test_its_options_go_together_or_not_at_all(short_dir: Path) -> None:
    for words in (["--private"], ["--json", "--bundle"]):
        assert doctor(*words, directory=short_dir, variables={}).returncode == 2
