"""Who a run says that it is: its process by number and start, and the devices that it may use."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from types import SimpleNamespace

import pytest

from gputop.publisher import identity
from gputop.wire.cards import process_start


def test_a_run_tells_its_process_by_number_and_start() -> None:
    run = identity.describe("r", 1, 0, {})
    assert (run.pid, run.start_ticks) == (os.getpid(), process_start(os.getpid()))


def test_the_devices_that_it_may_use_are_told_as_its_environment_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA", "HIP", "ROCR"):
        monkeypatch.delenv(f"{name}_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    run = identity.describe("r", 1, 0, {})
    assert (run.cuda_visible, run.hip_visible, run.rocr_visible, run.in_job) == (None, None, None, None)
    for at, name in enumerate(("CUDA", "HIP", "ROCR")):
        monkeypatch.setenv(f"{name}_VISIBLE_DEVICES", str(at))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    run = identity.describe("r", 1, 0, {})
    assert (run.cuda_visible, run.hip_visible, run.rocr_visible, run.in_job) == ("0", "1", "2", True)


@pytest.mark.parametrize(
    ("name", "file", "shown"),
    [
        (None, "/code/train.py", "train.py"),
        ("pkg.train", "/code/pkg/train.py", "pkg.train"),
        ("pkg.__main__", "/code/pkg/__main__.py", "pkg"),
        ("__main__", "/code/app.pyz/__main__.py", "app.pyz"),
        ("__main__", "/code/folder/__main__.py", "folder"),
    ],
)
def test_a_run_goes_by_what_was_started(
    monkeypatch: pytest.MonkeyPatch, name: str | None, file: str, shown: str
) -> None:
    spec = None if name is None else ModuleSpec(name, None)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec, __file__=file))
    assert identity.script() == shown
