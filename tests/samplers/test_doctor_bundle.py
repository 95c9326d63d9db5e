"""The bundle for a bug report names nobody: no user, host, path, command line, device or process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.processes import environment
from tests.nvml_stub import StubState, env

UUID = "GPU-5eed0000-0000-4000-8000-00000000abcd"


def doctor(*words: str, directory: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gputop", "doctor", *words],
        env=environment(directory, variables), capture_output=True, text=True, check=False, timeout=60,
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


def test_on_request_names_and_paths_are_left_in(machine: dict[str, str], short_dir: Path) -> None:
    said = doctor("--bundle", "--private", directory=short_dir, variables=machine).stdout
    assert str(short_dir) in said
    assert f"CUDA_VISIBLE_DEVICES={UUID},1" in said


def test_its_options_go_together_or_not_at_all(short_dir: Path) -> None:
    for words in (["--private"], ["--json", "--bundle"]):
        assert doctor(*words, directory=short_dir, variables={}).returncode == 2
