"""Who a run says that it is: its process by number and start, and the devices that it may use."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from gputop.publisher import identity
from gputop.wire.cards import process_start


def test_a_run_tells_its_process_by_number_and_start() -> None:
    run = identity.describe("r", 1, 0, {})
    assert (run.pid, run.start_ticks) == (os.getpid(), process_start(os.getpid()))


@pytest.mark.parametrize(
    ("env", "hip", "told"),
    [
        ({"CUDA_VISIBLE_DEVICES": "1"}, None, "1"),
        ({"CUDA_VISIBLE_DEVICES": "1", "SLURM_JOB_ID": "7"}, None, None),  # the job may have been given GPU 5
        ({"CUDA_VISIBLE_DEVICES": "GPU-aa", "SLURM_JOB_ID": "7"}, None, "GPU-aa"),
        ({"CUDA_VISIBLE_DEVICES": "", "SLURM_JOB_ID": "7"}, None, ""),
        ({"HIP_VISIBLE_DEVICES": "2"}, None, None),
        ({"HIP_VISIBLE_DEVICES": "2"}, "6.4", "2"),
    ],
)
def test_the_devices_that_it_may_use_are_told_where_their_numbers_are_the_machines(
    env: dict[str, str], hip: str | None, told: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "SLURM_JOB_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(version=SimpleNamespace(hip=hip), __version__="2"))
    assert identity.describe("r", 1, 0, {}).cuda_visible == told
