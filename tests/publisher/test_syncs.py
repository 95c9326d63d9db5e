"""Every way in which a value leaves the device: counted once, by the script's line, on tensors that play a device's."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gputop
from gputop.publisher import core
from gputop.publisher.hooks import syncs, transfers
from gputop.publisher.segment import Segment, to_record
from gputop.records import Step


class OnDevice(torch.Tensor):
    """A tensor that says that it lies on an accelerator."""


def lies(tensor: Any) -> bool:
    return isinstance(tensor, OnDevice)


@pytest.fixture
def watched(emitted: list[Segment]) -> Iterator[list[Segment]]:
    """A loop is watched as where there is a device."""
    pub = gputop.watch()
    assert core.current is not None
    undos = [syncs.install(core.current, lies), transfers.install(core.current, lies)]
    yield emitted
    for undo in reversed(undos):
        undo()
    pub.stop()


def steps_with(read: Callable[[Any], Any], emitted: list[Segment]) -> Step:
    """A step of a loop in which a value is read in this way."""
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for (x,) in DataLoader(TensorDataset(torch.ones(8, 2)), batch_size=2):
        model(x).sum().backward()
        optimizer.step()
        read(torch.tensor([2], dtype=torch.int64).as_subclass(OnDevice))
    assert core.current is not None
    core.current.catch_up()
    return to_record(emitted[1], "r", 0, knows_backward=True)


def to_cpu(tensor: Any) -> Any:
    """As `.to("cpu")` of a real one: out comes another that lies in memory."""
    with torch._C.DisableTorchFunctionSubclass():
        return torch.Tensor.to(tensor, torch.float32)


def printed(tensor: Any) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        print(tensor)


def copied(tensor: Any) -> None:
    with torch._C.DisableTorchFunctionSubclass():
        torch.zeros(1, dtype=torch.int64).copy_(tensor)


WAYS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "item": (lambda one: one.item(), ".item()"),
    "float": (float, "float()"),
    "int": (int, "int()"),
    "bool": (bool, "bool()"),
    "if": (lambda one: 1 if one else 0, "bool()"),
    "complex": (complex, "complex()"),
    "index": (lambda one: [0, 1, 2][one], "index()"),
    "range": (range, "index()"),
    "tolist": (lambda one: one.tolist(), ".tolist()"),
    "numpy": (lambda one: one.numpy(), ".numpy()"),
    "asarray": (numpy.asarray, "numpy()"),
    "cpu": (lambda one: one.cpu(), ".cpu()"),
    "to": (to_cpu, ".to(cpu)"),
    "copy": (copied, ".copy_()"),
    "print": (printed, "format()"),
    "repr": (repr, "format()"),
    "format": (lambda one: f"{one}", "format()"),
    "percent": (lambda one: "%d" % one, "int()"),  # noqa: UP031
}


@pytest.mark.parametrize("way", WAYS)
def test_each_way_is_counted_once_with_its_line(watched: list[Segment], way: str) -> None:
    read, call = WAYS[way]
    step = steps_with(read, watched)
    assert step.sync_count == 1
    assert step.sync_sites is not None
    site = step.sync_sites[0]
    assert (site.count, site.site.split(":")[0], site.source) == (1, "test_syncs.py", "patched")
    if way not in ("print", "repr"):
        assert site.call == call
    assert step.phases_ns["sync"] == step.sync_ns > 0
    assert step.d2h_bytes


def test_a_copy_that_does_not_block_is_no_wait(watched: list[Segment]) -> None:
    def read(one: Any) -> None:
        with torch._C.DisableTorchFunctionSubclass():
            torch.zeros(1, dtype=torch.int64).copy_(one, non_blocking=True)
            torch.zeros(1, dtype=torch.int64).copy_(one, True)
            torch.Tensor.to(one, torch.float32, True)

    assert steps_with(read, watched).sync_count is None


def test_reads_in_memory_and_reads_that_raise_are_as_ever(watched: list[Segment]) -> None:
    def read(one: Any) -> None:
        float(torch.ones(1))
        with pytest.raises(RuntimeError):
            torch.ones(2).as_subclass(OnDevice).item()

    assert steps_with(read, watched).sync_count == 1
