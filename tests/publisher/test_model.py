"""What is trained: the module found from its optimizer, precision, several optimizers; nothing left in the model."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gputop
from gputop.publisher import core
from gputop.publisher.hooks import autocast, model
from gputop.publisher.segment import Segment
from gputop.records import Model


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Linear(8, 8)
        self.two = torch.nn.Linear(8, 1)
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.two(self.one(x).relu())
        return out


def loader(n: int = 16) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(n, 8)), batch_size=4)


def facts() -> Model:
    assert core.current is not None
    told = core.current.facts["model"]
    assert isinstance(told, Model)
    return told


def step(net: torch.nn.Module, optimizer: Any, x: torch.Tensor) -> float:
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss.item()


def test_the_module_is_found_where_its_parameters_became_an_optimizers(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    net = Net().eval()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for (x,) in loader():
        step(net, optimizer, x)
    told = facts()
    pub.stop()
    assert (told.name, told.param_count, told.param_tensors, told.optimizer) == ("Net", 81, 4, "SGD")
    assert (told.train_mode, told.autocast) == (False, False)
    assert not model._compiled(net)
    assert told.on_cpu is None, "all of it is there"
    assert torch.optim.Optimizer.__init__.__module__ == "torch.optim.optimizer"
    assert not hasattr(torch.optim.Optimizer.__init__, "_gputop_original")


NET = Net()
GROUPS = torch.optim.SGD([{"params": list(NET.two.parameters())}, {"params": list(NET.one.parameters())}], 0.01)


def test_a_module_that_is_a_variable_of_the_script_is_found_too(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    for (x,) in loader():
        step(NET, GROUPS, x)
    told = facts()
    pub.stop()
    assert told.name == "Net"


def test_looking_for_the_model_changes_no_locals(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    net = Net()
    optimizer = torch.optim.SGD(list(net.parameters()), 0.01)
    before = locals()
    names = set(before)
    for (x,) in loader():
        step(net, optimizer, x)
    assert set(before) == names
    pub.stop()


@pytest.mark.parametrize("wrap", [torch.nn.DataParallel, lambda net: torch.compile(net, backend="eager")])
def test_wrappers_are_looked_through(emitted: list[Segment], wrap: Any) -> None:
    pub = gputop.watch()
    net = Net()
    wrapped = wrap(net)
    optimizer = torch.optim.SGD(wrapped.parameters(), 0.01)
    for (x,) in loader():
        step(net, optimizer, x)
    told = facts()
    pub.stop()
    assert told.name == "Net"


def test_a_gan_is_two_models_and_two_optimizers(emitted: list[Segment]) -> None:
    class Generator(Net):
        pass

    pub = gputop.watch()
    one, two = Generator(), Net()
    first, second = torch.optim.Adam(one.parameters(), 0.01), torch.optim.SGD(two.parameters(), 0.01)
    for (x,) in loader():
        step(two, second, x)
        step(one, first, x)
    told = facts()
    pub.stop()
    assert (told.name, told.param_count, told.optimizer) == ("Net, Generator", 162, "SGD, Adam")


def test_fused_in_backward_is_one_model(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    net = Net()
    each = {param: torch.optim.SGD([param], 0.01) for param in net.parameters()}

    def update(param: torch.Tensor) -> None:
        each[param].step()  # type: ignore[index]
        each[param].zero_grad()  # type: ignore[index]

    for param in net.parameters():
        param.register_post_accumulate_grad_hook(update)
    for (x,) in loader():
        net(x).square().mean().backward()
    told = facts()
    pub.stop()
    assert (told.param_count, told.param_tensors) == (81, 4)
    assert len(emitted) == 4
    assert all(seg.optimizer and {"backward", "optimizer"} <= set(seg.phases) for seg in emitted)
    for seg in emitted:
        assert sum(seg.phases.values()) <= seg.end - seg.start


def test_an_optimizer_that_is_gone_counts_no_more(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    for _ in range(3):
        net = Net()
        optimizer = torch.optim.SGD(net.parameters(), 0.01)
        for (x,) in loader():
            step(net, optimizer, x)
    told = facts()
    pub.stop()
    assert told.param_count == 81


def test_teacher_metric_and_average_are_not_what_is_trained(emitted: list[Segment]) -> None:
    class Teacher(Net):
        pass

    class Metric(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.abs().mean()

    pub = gputop.watch()
    teacher, metric, net = Teacher(), Metric(), Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    averaged = copy.deepcopy(net)
    for (x,) in loader():
        metric(x)
        with torch.no_grad():
            aim = teacher(x)
        optimizer.zero_grad()
        (net(x) - aim).square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            for mine, its in zip(averaged.parameters(), net.parameters(), strict=True):
                mine.lerp_(its, 0.1)
    told = facts()
    pub.stop()
    assert (told.name, told.param_count) == ("Net", 81)
    assert [seg.work for seg in emitted] == [True] * 4
    assert b"gputop" not in pickle.dumps(averaged)


def test_closures_are_one_step_each(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    net = Net()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    for (x,) in loader():

        def closure(x: torch.Tensor = x) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[no-untyped-call]
    told = facts()
    pub.stop()
    assert told.optimizer == "LBFGS"
    assert [seg.optimizer for seg in emitted] == [True] * 4
    assert all({"forward", "backward", "optimizer"} <= set(seg.phases) for seg in emitted)


@pytest.mark.parametrize("place", ["forward", "backward", "after"])
def test_a_closure_that_raises_leaves_the_next_backward_a_micro_step(emitted: list[Segment], place: str) -> None:
    pub = gputop.watch()
    net = Net()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)
    for n, (x,) in enumerate(loader()):

        def closure(x: torch.Tensor = x, n: int = n) -> torch.Tensor:
            optimizer.zero_grad()
            assert place != "forward" or n != 1
            loss: torch.Tensor = net(x).square().mean()
            if place == "backward" and n == 1:
                loss.register_hook(lambda _: 1 / 0)
            loss.backward()
            assert place != "after" or n != 1
            return loss

        if n == 2:
            net(x).mean().backward()
            continue
        try:
            optimizer.step(closure)  # type: ignore[no-untyped-call]
        except (AssertionError, ZeroDivisionError):
            assert n == 1
    pub.stop()
    train = [seg for seg in emitted if seg.work]
    assert [seg.optimizer for seg in train[-2:]] == [False, True]
    assert place != "backward" or not train[-3].optimizer
    assert "optimizer" not in train[-2].phases
    assert {"forward", "backward", "optimizer"} <= set(train[-1].phases)


def test_a_step_that_the_scaler_skips_is_no_optimizer_step(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for number, (x,) in enumerate(loader()):
        optimizer.zero_grad()
        loss = net(x).square().mean() * (float("inf") if number == 1 else 1.0)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    pub.stop()
    assert [seg.optimizer for seg in emitted] == [True, False, True, True]
    assert [seg.work for seg in emitted] == [True] * 4


def test_mixed_precision_is_seen_though_backward_runs_outside_of_it(emitted: list[Segment]) -> None:
    plain = torch.autograd.backward
    pub = gputop.watch()
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for (x,) in loader():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = net(x).float().square().mean()
        loss.backward()
        optimizer.step()
    told = facts()
    pub.stop()
    assert told.autocast is True
    assert torch.autograd.backward is plain


def test_a_graph_that_hides_its_weights_says_nothing_of_precision() -> None:
    net = Net()
    assert autocast.in_mixed_precision(net.bfloat16()(torch.randn(2, 8).bfloat16()).sum()) is False
    assert autocast.in_mixed_precision(torch.randn(2)) is None
    deep = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(autocast.MAX_NODES)])
    assert autocast.in_mixed_precision(deep(torch.randn(1, 2)).sum()) is None


def test_what_was_left_on_the_cpu_is_named() -> None:
    net = Net()
    net.one.to("meta")
    assert model._on_cpu([net], "meta") == ["two.weight", "two.bias", "scale"]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_models_are_scripted_exported_and_saved_as_ever(emitted: list[Segment], tmp_path: Path) -> None:
    net = Net()
    example = torch.randn(2, 8)
    plain = str(torch.export.export(net, (example,)).graph)
    pub = gputop.watch()
    optimizer = torch.optim.SGD(net.parameters(), 0.01)
    for (x,) in loader():
        step(net, optimizer, x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer versions of torch say that it will go
        scripted = torch.jit.script(net) if sys.version_info < (3, 14) else net
    assert torch.equal(scripted(example), net(example))
    assert str(torch.export.export(net, (example,)).graph) == plain
    buffer = io.BytesIO()
    torch.save(torch.nn.Sequential(net.one, net.two), buffer)
    (tmp_path / "model.pt").write_bytes(buffer.getvalue())
    pub.stop()
    elsewhere = (
        "import sys; sys.modules['gputop'] = None\n"
        "import torch; print(torch.load('model.pt', weights_only=False)(torch.zeros(1, 8)).shape[0])"
    )
    ran = subprocess.run([sys.executable, "-c", elsewhere], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "1", ran.stderr


def test_shapes_are_counted_by_loader() -> None:
    from gputop.publisher.shapes import MAX_SHAPES, Shapes

    shapes = Shapes()
    seen = [shapes.see(0, [torch.zeros(4, n), torch.zeros(4)]) for n in (3, 5, 3, 7)]
    assert seen == [1, 2, 2, 3]
    assert shapes.see(1, {"a": torch.zeros(2), "b": "text"}) == 1
    assert shapes.see(1, torch.zeros(3)) == 2
    assert shapes.see(1, 5) is shapes.see(1, []) is shapes.see(1, None) is None
    for n in range(2 * MAX_SHAPES):
        last = shapes.see(2, torch.zeros(1, n, device="meta"))
    assert last == MAX_SHAPES
