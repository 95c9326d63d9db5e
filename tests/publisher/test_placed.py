"""What ran on the CPU, read off a graph; and that it is told of a model which lies elsewhere alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch

import gputop
from gputop.publisher import core
from gputop.publisher.hooks.model import _on_cpu
from gputop.publisher.hooks.placed import operators_on_cpu
from gputop.publisher.segment import Segment


def loss(device: str) -> torch.Tensor:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).to(device)
    return torch.nn.functional.mse_loss(model(torch.zeros(3, 4, device=device)), torch.zeros(3, 1, device=device))


def test_operators_are_named_as_they_are_called_nearest_to_the_loss_first() -> None:
    assert operators_on_cpu(loss("cpu")) == ["operator mse_loss", "operator addmm", "operator relu", "operator t"]
    assert operators_on_cpu([loss("cpu")])[0] == "operator mse_loss"


def test_what_ran_elsewhere_is_not_named() -> None:
    assert operators_on_cpu(loss("meta")) == []
    assert operators_on_cpu(torch.zeros(1)) == []
    assert operators_on_cpu(None) == []


def test_the_copy_between_devices_and_an_older_torch_tell_nothing() -> None:
    copy = node("ToCopyBackward0", "cpu", node("MmBackward0", "cuda"))
    assert operators_on_cpu(SimpleNamespace(grad_fn=copy)) == []
    old = node("MseLossBackward0", None)
    assert operators_on_cpu(SimpleNamespace(grad_fn=old)) == []
    split = node("MseLossBackward0", "cpu", node("ToCopyBackward0", "cpu", node("AddmmBackward0", "cuda")))
    assert operators_on_cpu(SimpleNamespace(grad_fn=split)) == ["operator mse_loss"]


class Node:
    """As autograd's."""

    def __init__(self, name: str, device: str | None, deeper: Node | None) -> None:
        self.name = lambda: name
        self.next_functions = ((deeper, 0),)
        if device is not None:
            self._input_metadata = [SimpleNamespace(device=SimpleNamespace(type=device))]


def node(name: str, device: str | None, deeper: Node | None = None) -> Any:
    return Node(name, device, deeper)


def test_they_are_told_of_a_model_that_lies_elsewhere_alone(emitted: list[Segment]) -> None:
    gputop.watch()
    loss("cpu").backward()
    assert core.current is not None
    operators = core.current.cpu_operators
    assert operators[0] == "operator mse_loss"
    assert _on_cpu([], "cpu", operators) is None
    model = torch.nn.Linear(2, 1)
    assert _on_cpu([model], "cuda:0", operators) == ["weight", "bias", *operators]
