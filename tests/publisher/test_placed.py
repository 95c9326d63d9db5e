"""What ran on the CPU, read off a graph; and that it is told of a model which lies elsewhere alone."""

from __future__ import annotations

import weakref
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gputop
from gputop.publisher import core
from gputop.publisher.hooks.inputs import with_parameters
from gputop.publisher.hooks.model import Trained, _on_cpu
from gputop.publisher.hooks.placed import operators_on_cpu
from gputop.publisher.segment import Segment


def loss(device: str) -> torch.Tensor:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 1)).to(device)
    return torch.nn.functional.mse_loss(model(torch.zeros(3, 4, device=device)), torch.zeros(3, 1, device=device))


tells = pytest.mark.skipif(
    not hasattr(torch.ones(1, requires_grad=True).square().grad_fn, "_input_metadata"),
    reason="in torch 2.4 and older no node of a graph says where it runs",
)


@tells
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


@tells
def test_they_are_told_of_a_model_that_lies_elsewhere_alone(emitted: list[Segment]) -> None:
    gputop.watch()
    loss("cpu").backward()
    assert core.current is not None
    operators = core.current.cpu_operators
    assert operators[0] == "operator mse_loss"
    assert _on_cpu([], "cpu", operators) is None
    model = torch.nn.Linear(2, 1)
    assert _on_cpu([model], "cuda:0", operators) == ["weight", "bias", *operators]


def test_inputs_that_no_copy_was_seen_of_are_named_beside_what_ran_there(emitted: list[Segment]) -> None:
    gputop.watch()
    publisher = core.current
    assert publisher is not None
    batch = {"image": torch.zeros(4, 3), "label": torch.zeros(4, dtype=torch.int64)}
    publisher.shapes.see(0, batch)
    publisher.shapes.see(0, {"image": torch.zeros(9, 3), "label": torch.zeros(9)})
    publisher.shapes.see(1, [torch.zeros(2, 2), torch.zeros(2, device="meta"), 3])
    assert publisher.shapes.inputs == {
        "input 'image' 4x3 float32": 48, "input 'label' 4 int64": 32, "input[0] 2x2 float32": 16,
    }  # fmt: skip
    publisher.hooks.append("transfers")
    publisher.moved = {32, 16}
    trained = Trained(publisher)
    for _ in range(2):
        assert trained._inputs() == ["input 'image' 4x3 float32"], "a later record says the same"
    assert _on_cpu([], "cuda:0", ["operator mm"], trained.stayed) == ["input 'image' 4x3 float32", "operator mm"]
    assert _on_cpu([], "cuda:0", [], trained.stayed) is None, "lengths of sequences belong on the CPU"
    publisher.moved = {32, 16, 12}
    assert Trained(publisher)._inputs() == [], "the image may have been copied as bytes"
    publisher.hooks.remove("transfers")
    publisher.moved = set()
    assert Trained(publisher)._inputs() == [], "copies that nobody sees are no reason to name anything"


def test_an_input_has_the_name_of_the_parameter_in_its_place() -> None:
    class Net(torch.nn.Module):
        def forward(self, tokens: Any, /, mask: Any = None, *more: Any, scale: float = 1.0) -> Any:
            return tokens

    class Wrapped(torch.nn.Module):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return args

    inputs = ["input[0] 8x512 int64", "input[1] 8x512 bool", "input[2] scalar int64", "input 'labels' 8 int64"]
    assert with_parameters(inputs, [Net()]) == [
        "input[0] 'tokens' 8x512 int64", "input[1] 'mask' 8x512 bool", "input[2] scalar int64",
        "input 'labels' 8 int64",
    ]  # fmt: skip
    assert with_parameters(["input 8x512 int64"], [Net()]) == ["input 'tokens' 8x512 int64"]
    assert with_parameters(inputs, [Wrapped()]) == inputs
    assert with_parameters(inputs, [Net(), Net()]) == inputs, "which of them takes it is not known"
    assert with_parameters(inputs, []) == with_parameters(inputs, [SimpleNamespace(forward=3)]) == inputs


def test_the_model_s_record_names_inputs_so(emitted: list[Segment]) -> None:
    gputop.watch()
    publisher = core.current
    assert publisher is not None
    model = torch.nn.Linear(3, 1, device="meta")
    publisher.shapes.see(0, [torch.zeros(4, 3), torch.zeros(4)])
    publisher.hooks.append("transfers")
    publisher.cpu_operators = ["operator mm"]
    publisher.named["model"] = weakref.ref(model)
    trained = Trained(publisher)
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    trained.meet(optimizer)
    assert trained.describe(0).on_cpu == ["input[0] 'input' 4x3 float32", "input[1] 4 float32", "operator mm"]
