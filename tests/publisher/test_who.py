"""Who a run says that it is: its process by number and start, and the devices that it may use."""

from __future__ import annotations

import os

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
