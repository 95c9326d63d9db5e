"""What is told of a process from outside: which devices it was given."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from gputop.records import Run
from gputop.samplers.attach import identity

UUID = "GPU-5eed0000-0000-4000-8000-000000000001"


@pytest.fixture
def described(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Run]:
    def describe(**env: str) -> Run:
        monkeypatch.setattr(identity, "environment", lambda _pid: env)
        return identity.describe(os.getpid(), t=1, host="h")

    return describe


@pytest.mark.parametrize(
    ("value", "visible"),
    [("", 0), ("-1", 0), ("0", 1), ("1,-1,2", 1), (UUID, 1), (UUID[:9], 1), ("MIG-1/2", 1), ("0,1,x,2", 2)],
)
def test_the_devices_that_it_was_given_are_those_in_force(
    described: Callable[..., Run], value: str, visible: int
) -> None:
    run = described(CUDA_VISIBLE_DEVICES=value)
    assert (run.gpu_visible, run.cuda_visible) == (visible, value)


def test_without_the_variable_nothing_is_said(described: Callable[..., Run]) -> None:
    run = described()
    assert (run.gpu_visible, run.cuda_visible, run.cuda_order) == (None, None, None)


def test_numbers_of_a_job_or_a_container_are_not_this_machines(
    described: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    run = described(CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID", SLURM_JOB_ID="7")
    assert (run.cuda_visible, run.cuda_order, run.gpu_visible) == (None, None, 1)
    assert described(CUDA_VISIBLE_DEVICES=UUID, SLURM_JOB_ID="7").cuda_visible == UUID
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    run = described(CUDA_VISIBLE_DEVICES="0", CUDA_DEVICE_ORDER="PCI_BUS_ID", SLURM_JOB_ID="7")
    assert (run.cuda_visible, run.cuda_order) == ("0", "PCI_BUS_ID")


def test_on_amds_gpus_its_own_variables_count(described: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    assert described(HIP_VISIBLE_DEVICES="1").cuda_visible is None
    monkeypatch.setattr(identity, "_loads", lambda _pid, mark: mark == identity.AMD)
    run = described(HIP_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="0,2")
    assert (run.cuda_visible, run.gpu_visible) == ("1", 1)
    assert described(ROCR_VISIBLE_DEVICES="").gpu_visible == 0
