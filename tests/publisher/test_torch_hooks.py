"""The automatic hooks on real PyTorch loops, in this process; each test watches and stops."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data import dataloader as loading
from torch.utils.data._utils import signal_handling

import gputop
from gputop.publisher import core
from gputop.publisher.hooks import device, syncs, transfers
from gputop.publisher.segment import Segment, to_record
from gputop.records import Event, Loader, Model


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = torch.nn.Linear(8, 8)
        self.drop = torch.nn.Dropout(0.5)
        self.two = torch.nn.Linear(8, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.two(self.drop(self.one(x)))
        return out


def parts(n: int = 24, batch: int = 4) -> tuple[Net, torch.optim.Optimizer, DataLoader[Any]]:
    torch.manual_seed(3)
    model = Net()
    loader: DataLoader[Any] = DataLoader(TensorDataset(torch.randn(n, 8)), batch_size=batch, shuffle=True)
    return model, torch.optim.SGD(model.parameters(), 0.01), loader


def train(
    model: Net, optimizer: torch.optim.Optimizer, loader: DataLoader[Any], epochs: int = 1, val: Any = None
) -> list[float]:
    losses = []
    for _ in range(epochs):
        for step, (x,) in enumerate(loader):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            if val is not None and step == 2:
                with torch.no_grad():
                    for (v,) in val:
                        model(v)
    return losses


def kinds(segments: list[Segment]) -> list[str]:
    return ["train" if seg.work else "eval" for seg in sorted(segments, key=lambda seg: seg.start)]


def check_sums(segments: list[Segment]) -> None:
    for seg in segments:
        seg.settle()
        assert sum(seg.phases.values()) <= seg.end - seg.start
        assert all(ns >= 0 for ns in seg.phases.values())


def test_an_unchanged_loop_gives_its_steps(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    train(*parts(), epochs=2)
    pub.stop()
    assert kinds(emitted) == ["train"] * 12
    check_sums(emitted)
    for seg in emitted:
        assert {"data", "forward", "backward", "optimizer"} <= set(seg.phases)
        assert seg.samples == 4
        assert seg.optimizer
    assert [seg.first for seg in emitted] == ([True] + [False] * 5) * 2
    assert [seg.source.epoch for seg in emitted] == [0] * 6 + [1] * 6


def test_validation_within_training_is_told_apart(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    val: DataLoader[Any] = DataLoader(TensorDataset(torch.randn(8, 8)), batch_size=4)
    train(*parts(), val=val)
    pub.stop()
    assert kinds(emitted).count("train") == 6
    assert kinds(emitted).count("eval") == 2
    holder = next(seg for seg in emitted if "eval" in seg.phases)
    inside = [seg for seg in emitted if not seg.work]
    assert holder.phases["eval"] >= sum(seg.end - seg.start for seg in inside)
    check_sums(emitted)


def test_a_loop_left_by_break_closes_its_validation(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    model, optimizer, loader = parts()
    val: DataLoader[Any] = DataLoader(TensorDataset(torch.randn(80, 8)), batch_size=4)
    for (x,) in loader:
        model(x).sum().backward()
        optimizer.step()
        for (v,) in val:
            model(v)
            break
        ledger = core.current.ledger if core.current else None
        assert ledger is not None
        assert not ledger.loop.levels, "the dropped iterator ended its pass"
    pub.stop()
    assert kinds(emitted).count("train") == 6
    assert kinds(emitted).count("eval") == 6


def test_exceptions_in_every_phase_leave_the_clock_in_order(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    model, optimizer, loader = parts()

    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            raise ArithmeticError

    for step, (x,) in enumerate(loader):
        out = model(x)
        if step == 1:
            with pytest.raises(ArithmeticError):
                Broken.apply(out).sum().backward()
            continue
        if step == 2:
            with pytest.raises(ZeroDivisionError), gputop.phase("mine"):
                _ = 1 / 0
        out.sum().backward()
        optimizer.step()
    pub.stop()
    assert kinds(emitted) == ["train"] * 6
    check_sums(emitted)
    assert emitted[1].optimizer is False


def test_losses_and_random_state_are_bit_identical(emitted: list[Segment]) -> None:
    plain = train(*parts(), epochs=3)
    state = torch.get_rng_state()
    pub = gputop.watch()
    watched = train(*parts(), epochs=3)
    assert torch.equal(torch.get_rng_state(), state)
    pub.stop()
    assert watched == plain
    assert len(emitted) == 18


HOOKED: list[tuple[Any, str]] = [
    (loading._BaseDataLoaderIter, "__next__"),
    (DataLoader, "__iter__"),
    (torch.autograd, "backward"),
    (torch, "save"),
    (torch.optim.Optimizer, "__init__"),
    (signal_handling, "_error_if_any_worker_fails"),
    *[(torch.Tensor, name) for name in syncs.METHODS],
    *[(torch.Tensor, name) for name in ("to", "cuda", "copy_")],
]


def told(owner: Any, name: str) -> tuple[Any, ...]:
    function = getattr(owner, name)
    try:
        signature: Any = inspect.signature(function)
    except (TypeError, ValueError):
        signature = None
    return function.__name__, function.__qualname__, function.__doc__, str(signature)


def test_stop_restores_everything_and_hooks_keep_their_faces(emitted: list[Segment]) -> None:
    own = [vars(owner).get(name) for owner, name in HOOKED]
    faces = [told(owner, name) for owner, name in HOOKED]
    optim = sys.modules["torch.optim.optimizer"]
    pub = gputop.watch()
    publisher = core.current
    assert publisher is not None
    undos = [syncs.install(publisher), transfers.install(publisher)]
    assert all(vars(owner).get(name) is not before for (owner, name), before in zip(HOOKED, own, strict=True))
    assert [told(owner, name) for owner, name in HOOKED] == faces
    for undo in undos:
        undo()
    pub.stop()
    assert [vars(owner).get(name) for owner, name in HOOKED] == own
    assert not optim._global_optimizer_pre_hooks
    assert not optim._global_optimizer_post_hooks


def test_iterators_keep_type_and_length(emitted: list[Segment]) -> None:
    _, _, loader = parts()
    pub = gputop.watch()
    iterator = iter(loader)
    assert type(iterator) is loading._SingleProcessDataLoaderIter
    assert len(iterator) == len(loader) == 6  # type: ignore[arg-type]
    pub.stop()


def test_models_copy_and_save_as_before(emitted: list[Segment]) -> None:
    model, optimizer, loader = parts()
    pub = gputop.watch(model, loader, optimizer)
    train(model, optimizer, loader)
    averaged = copy.deepcopy(model)
    buffer = io.BytesIO()
    torch.save(model, buffer)
    text = pickle.dumps(model.state_dict()) + pickle.dumps(averaged)
    pub.stop()
    assert b"gputop" not in buffer.getvalue() + text
    assert copy.deepcopy(loader).batch_size == 4


def test_saving_is_checkpoint_time(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    model, optimizer, loader = parts()
    for (x,) in loader:
        model(x).sum().backward()
        optimizer.step()
        torch.save(model.state_dict(), io.BytesIO())
    pub.stop()
    assert all("checkpoint" in seg.phases for seg in emitted)


@pytest.mark.parametrize(
    ("module", "function"),
    [
        ("torch.distributed.checkpoint", "save"),
        ("torch.distributed.checkpoint", "async_save"),
        ("safetensors.torch", "save_file"),
        ("safetensors.torch", "save_model"),
    ],
)
def test_saving_in_other_formats_is_one_checkpoint_each(
    emitted: list[Segment], tmp_path: Path, module: str, function: str
) -> None:
    library = pytest.importorskip(module)
    plain = getattr(library, function)
    if function == "async_save" and "no_dist" not in inspect.signature(plain).parameters:
        pytest.skip("this torch saves so among several processes only")
    pub = gputop.watch()
    model, optimizer, loader = parts()
    save = getattr(library, function)
    for (x,) in loader:
        model(x).sum().backward()
        optimizer.step()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that there is one process only
            if function == "save":
                save(model.state_dict(), checkpoint_id=tmp_path)
            elif function == "async_save":
                save(model.state_dict(), checkpoint_id=tmp_path, no_dist=True).result()
            else:
                save(model if function == "save_model" else model.state_dict(), str(tmp_path / "model"))
    pub.stop()
    assert all("checkpoint" in seg.phases for seg in emitted)
    current = core.current
    assert current is not None
    told = [one for one in (*current.ring.inbox, *current.ring.held) if isinstance(one, Event)]
    assert sum(one.kind == "checkpoint" for one in told) == len(emitted)
    assert getattr(library, function) is plain


def test_facts_of_loader_and_model(emitted: list[Segment]) -> None:
    model, optimizer, loader = parts()
    pub = gputop.watch(model)
    train(model, optimizer, loader)
    publisher = core.current
    assert publisher is not None
    facts = dict(publisher.facts)
    run = publisher.describe()
    pub.stop()
    told_model = facts["model"]
    assert isinstance(told_model, Model)
    assert told_model.name == "Net"
    assert told_model.param_count == 81
    assert told_model.devices == {"cpu": 81}
    assert told_model.optimizer == "SGD"
    told_loader = facts["loader 0"]
    assert isinstance(told_loader, Loader)
    assert (told_loader.num_workers, told_loader.batch_size, told_loader.batches) == (0, 4, 6)
    assert run.device == "cpu"
    assert run.framework == "torch"


def test_a_second_watch_is_the_same_and_adds(emitted: list[Segment]) -> None:
    model, optimizer, loader = parts()
    first = gputop.watch()
    second = gputop.watch(optimizer=optimizer, model=model)
    assert first is second
    train(model, optimizer, loader)
    assert core.current is not None
    assert core.current.named["model"]() is model
    first.stop()
    assert kinds(emitted) == ["train"] * 6
    again = gputop.watch()
    assert again is not first
    train(model, optimizer, loader)
    again.stop()
    assert kinds(emitted) == ["train"] * 12


def test_explicit_steps_and_automatic_hooks_do_not_count_twice(emitted: list[Segment]) -> None:
    model, optimizer, loader = parts()
    pub = gputop.watch()
    for (x,) in gputop.steps(loader):
        with gputop.phase("forward"):
            loss = model(x).sum()
        loss.backward()
        optimizer.step()
    pub.stop()
    assert kinds(emitted) == ["train"] * 6
    assert all(seg.source.declared and seg.batches == 1 for seg in emitted)
    check_sums(emitted)


def test_other_threads_never_touch_the_ledger(emitted: list[Segment]) -> None:
    model, optimizer, loader = parts()
    other_model, other_optimizer, other_loader = parts()
    pub = gputop.watch()
    for (x,) in loader:
        model(x).sum().backward()
        optimizer.step()
        thread = threading.Thread(target=train, args=(other_model, other_optimizer, other_loader))
        thread.start()
        thread.join()
    pub.stop()
    assert kinds(emitted) == ["train"] * 6
    assert all(seg.source.loader_id == 0 for seg in emitted)


def test_training_in_another_thread_is_found(emitted: list[Segment]) -> None:
    pub = gputop.watch()
    thread = threading.Thread(target=train, args=parts(), kwargs={"epochs": 2})
    thread.start()
    thread.join()
    pub.stop()
    assert len(emitted) >= 5, "all but the steps before its first backward was seen"


def test_a_loop_without_a_loader(emitted: list[Segment]) -> None:
    model, optimizer, _ = parts()
    pub = gputop.watch()
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).sum().backward()
        optimizer.step()
    pub.stop()
    assert len(emitted) == 6
    assert kinds(emitted)[:5] == ["train"] * 5


class OnDevice(torch.Tensor):
    """A tensor that says that it lies on an accelerator."""


def lies(tensor: Any) -> bool:
    return isinstance(tensor, OnDevice)


def test_reads_of_device_values_are_counted_once_with_their_line(emitted: list[Segment]) -> None:
    model, optimizer, loader = parts()
    pub = gputop.watch()
    publisher = core.current
    assert publisher is not None
    undo = syncs.install(publisher, lies)
    try:
        for (x,) in loader:
            loss = model(x).sum()
            loss.backward()
            optimizer.step()
            held = loss.detach().as_subclass(OnDevice)
            f"{held} {held.item():.3f}"
            float(held)
            loss.item()
    finally:
        undo()
        pub.stop()
    record = to_record(emitted[0], "r", 0, knows_backward=True)
    assert record.sync_count == 3
    assert record.sync_sites is not None
    assert {site.site.split(":")[0] for site in record.sync_sites} == {"test_torch_hooks.py"}
    assert {site.call for site in record.sync_sites} == {"format()", ".item()", "float()"}
    check_sums(emitted)


def elsewhere(tensor: Any) -> bool:
    """Whether a tensor lies on what stands for an accelerator here: a device of torch's that holds no memory."""
    return bool(tensor.device.type == "meta")


WAYS: dict[str, tuple[Callable[[Any], Any], bool]] = {
    "to": (lambda x: x.to("meta"), True),
    "to, in float64": (lambda x: x.to("meta", torch.float64), True),
    "to, without waiting": (lambda x: x.to("meta", non_blocking=True), False),
    "to, without waiting, by place": (lambda x: x.to("meta", torch.float32, True), False),
    "cuda": (lambda x: x.cuda(), True),
    "cuda, without waiting": (lambda x: x.cuda(non_blocking=True), False),
    "copy_": (lambda x: torch.empty_like(x, device="meta").copy_(x), True),
    "copy_, without waiting": (lambda x: torch.empty_like(x, device="meta").copy_(x, True), False),
}


@pytest.mark.parametrize("pinned", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_copies_to_the_device_are_h2d_with_bytes(
    emitted: list[Segment], monkeypatch: pytest.MonkeyPatch, way: str, pinned: bool
) -> None:
    copy_over, waits = WAYS[way]
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda tensor: pinned)
    monkeypatch.setattr(torch.Tensor, "cuda", lambda tensor, **how: torch.empty_like(tensor, device="meta"))
    model, optimizer, loader = parts()
    pub = gputop.watch()
    publisher = core.current
    assert publisher is not None
    undo = transfers.install(publisher, elsewhere)
    try:
        for (x,) in loader:
            copy_over(x)
            x.to(torch.float32).to("cpu").copy_(x)
            model(x).sum().backward()
            optimizer.step()
    finally:
        undo()
        pub.stop()
    record = to_record(emitted[1], "r", 0, knows_backward=True)
    nbytes = 4 * 8 * 4
    assert record.h2d_bytes == nbytes, "and what stays where it is was not copied"
    assert record.h2d_pageable_bytes == (0 if pinned else nbytes)
    assert record.h2d_blocking_bytes == (nbytes if waits else 0)
    assert record.phases_ns["h2d"] > 0
    assert (record.sync_count, record.d2h_bytes) == (None, None)


def test_gputop_0_makes_it_nothing(emitted: list[Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUTOP", "0")
    before = vars(torch.Tensor).get("backward")
    pub = gputop.watch()
    model, optimizer, loader = parts()
    for (x,) in gputop.steps(loader):
        with gputop.phase("forward"):
            out = model(x)
        out.sum().backward()
        optimizer.step()
    gputop.mark("nothing")
    assert vars(torch.Tensor).get("backward") is before
    assert pub.run_id is None
    pub.stop()
    assert emitted == []


def test_a_fault_of_its_own_ends_the_watching_and_not_the_training(
    emitted: list[Segment], caplog: pytest.LogCaptureFixture
) -> None:
    model, optimizer, loader = parts()
    pub = gputop.watch()
    assert core.current is not None

    def broken(*_: Any) -> None:
        raise RuntimeError("broken on purpose")

    core.current.ledger.backward = broken  # type: ignore[method-assign]
    losses = train(model, optimizer, loader, epochs=2)
    pub.stop()
    assert len(losses) == 12
    assert [record.levelname for record in caplog.records if record.name == "gputop"] == ["WARNING"]


def test_accumulation_and_two_optimizers(emitted: list[Segment]) -> None:
    model, optimizer, loader = parts()
    second = torch.optim.Adam(model.two.parameters(), 1e-3)
    pub = gputop.watch()
    for step, (x,) in enumerate(loader):
        torch.autograd.backward(model(x).sum())
        if step % 3 == 2:
            optimizer.step()
            second.step()
    pub.stop()
    assert [seg.optimizer for seg in emitted] == [False, False, True] * 2
    assert kinds(emitted) == ["train"] * 6


def test_no_device_is_looked_for_where_there_can_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    (tmp_path / "nvidia0").touch()
    assert device.possible((str(tmp_path / "nvidia*"),))
    assert not device.possible((str(tmp_path / "kfd"),))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert not device.possible((str(tmp_path / "nvidia*"),))


def test_an_allocator_that_keeps_no_figures_costs_only_these() -> None:
    def refuse() -> dict[str, Any]:
        raise RuntimeError("CUDAPluggableAllocator does not yet support getDeviceStats")

    torch_with_it = SimpleNamespace(cuda=SimpleNamespace(memory_stats_as_nested_dict=refuse))
    assert device.CudaClock(torch_with_it).memory() == {}
