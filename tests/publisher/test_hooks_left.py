"""What a hook remembers within a call is gone with the call: nested, refused, held over or dropped late."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Sampler, TensorDataset

import gputop
from gputop.publisher import core
from gputop.publisher.entries import BEGIN, CLOSE, END, EXCHANGE, Entry
from gputop.publisher.hooks.compile import in_use
from gputop.publisher.hooks.exchange import Exchange
from gputop.publisher.segment import Segment
from tests.publisher.test_torch_hooks import parts


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Entry]]:
    """The entries of a publisher that watches, in order."""
    seen: list[Entry] = []
    watch = gputop.watch()
    publisher = core.current
    assert publisher is not None

    def plain(self: core.Publisher) -> Any:
        def put(entry: Entry) -> None:
            seen.append(entry)
            self._read_at_once(entry)

        return put

    monkeypatch.setattr(core.Publisher, "plain_put", plain)
    publisher.put = publisher.plain_put()
    yield seen
    watch.stop()


def step(model: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    model(x).square().mean().backward()
    optimizer.step()


def test_a_backward_inside_of_a_backward_leaves_none_open(emitted: list[Segment], noted: list[Entry]) -> None:
    model, optimizer, loader = parts()
    for (x,) in loader:
        optimizer.zero_grad()
        out: Any = checkpoint(model, x.requires_grad_(), use_reentrant=True)
        out.square().mean().backward()
        optimizer.step()
        time.sleep(0.01)
    core.current.stop()  # type: ignore[union-attr]
    assert len(emitted) == 6
    assert all(seg.phases["backward"] < seg.end - seg.start - 10_000_000 for seg in emitted)


def test_what_only_keeps_code_from_being_compiled_is_no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(torch.nn.Linear(2, 1), torch.zeros(1, 2, requires_grad=True), use_reentrant=True).sum().backward()
    frames: Any = sys.modules["torch._dynamo.eval_frame"]
    assert not in_use()
    monkeypatch.setattr(frames, "cached_backends", {1: None, 2: print})
    assert in_use()


def test_a_patch_that_came_later_than_ours_stays_when_ours_goes() -> None:
    plain = torch.save
    watch = gputop.watch()
    ours = torch.save

    def theirs(*args: Any, **kwargs: Any) -> None:
        ours(*args, **kwargs)

    try:
        torch.save = theirs
        watch.stop()
        assert torch.save is theirs
    finally:
        torch.save = plain


def test_a_graph_that_goes_backward_twice_tells_of_one_exchange_each_time(
    monkeypatch: pytest.MonkeyPatch, noted: list[Entry]
) -> None:
    world = SimpleNamespace(
        is_available=lambda: True, GroupMember=SimpleNamespace(WORLD="all"), get_world_size=lambda: 2
    )
    monkeypatch.setattr(Exchange, "_found", lambda _: world)
    loss = parts()[0](torch.zeros(4, 8)).mean()
    for times in (1, 2, 3):
        loss.backward(retain_graph=True)
        assert sum(op == EXCHANGE for op, _, _ in noted) == times


class Refusing(Sampler[list[int]]):
    """Gives its batches at the second try."""

    tries = 0

    def __iter__(self) -> Iterator[list[int]]:
        self.tries += 1
        if self.tries == 1:
            raise ConnectionError
        return iter([[0, 1], [2, 3]])


def test_a_loader_that_could_not_begin_is_asked_again_and_its_steps_are_seen(emitted: list[Segment]) -> None:
    watch = gputop.watch()
    model, optimizer, _ = parts()
    loader: DataLoader[Any] = DataLoader(TensorDataset(torch.randn(4, 8)), batch_sampler=Refusing())
    with pytest.raises(ConnectionError):
        iter(loader)
    for (x,) in loader:
        step(model, optimizer, x)
    watch.stop()
    assert [seg.samples for seg in emitted if seg.work] == [2, 2]


def test_a_generator_that_holds_the_last_batch_back_trains_on_it(emitted: list[Segment]) -> None:
    def one_ahead(loader: Any) -> Iterator[Any]:
        iterator = iter(loader)
        held = next(iterator)
        while True:
            try:
                batch = next(iterator)
            except StopIteration:
                yield held
                return
            yield held
            held = batch

    watch = gputop.watch()
    model, optimizer, _ = parts()
    loader: DataLoader[Any] = DataLoader(TensorDataset(torch.randn(4, 8)), batch_size=4)
    for _ in range(3):
        for (x,) in one_ahead(loader):
            step(model, optimizer, x)
    watch.stop()
    assert [seg.work for seg in emitted] == [True] * 3


def test_a_pass_that_is_over_ends_once_however_long_its_iterator_is_kept(noted: list[Entry]) -> None:
    model, optimizer, loader = parts()
    kept = [iter(loader), iter(loader)]
    for iterator in kept:
        for (x,) in iterator:
            step(model, optimizer, x)
    del iterator
    kept.clear()
    assert sum(op == CLOSE for op, _, _ in noted) == 2


@pytest.fixture
def alone() -> Iterator[Any]:
    """A process group of this process alone."""
    distributed = torch.distributed
    if not distributed.is_available() or not distributed.is_gloo_available():
        pytest.skip("this torch has no gloo")
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield distributed
    distributed.destroy_process_group()


def test_a_collective_within_a_collective_or_after_one_that_failed_is_told_once(alone: Any, noted: list[Entry]) -> None:
    model, optimizer, loader = parts()
    for n, (x,) in enumerate(loader):
        step(model, optimizer, x)
        if n == 1:
            with pytest.raises(TypeError):
                alone.all_reduce(None)
        if n >= 1:
            alone.all_gather_object([None], n)  # calls others
    marks = [op for op, what, _ in noted if what == "comm"]
    assert marks == [BEGIN, END] * (1 + 5)


class Trains(torch.utils.data.Dataset[bool]):
    """Trains a model of its own for each sample."""

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> bool:
        torch.set_num_threads(1)
        model = torch.nn.Linear(2, 1)
        step(model, torch.optim.SGD(model.parameters(), 0.1), torch.zeros(1, 2))
        assert core.current is not None
        return core.current.started


def test_a_loader_worker_that_trains_is_no_run() -> None:
    watch = gputop.watch()
    loader = DataLoader(Trains(), num_workers=1, multiprocessing_context="fork")
    assert [started.item() for started in loader] == [False, False]
    watch.stop()
