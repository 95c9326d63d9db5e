"""What backward waits for other ranks is told apart from backward itself, without a rank more than this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import gputop
from gputop.publisher.hooks.exchange import Exchange
from gputop.publisher.regions import Regions
from gputop.publisher.segment import Segment, Source
from tests.publisher.driver import MS, Acted, told
from tests.publisher.test_regions import Queue, records
from tests.publisher.test_torch_hooks import check_sums, parts

WAIT_S = 0.02


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process as one rank of two, as far as anyone asks."""
    world = SimpleNamespace(
        is_available=lambda: True, GroupMember=SimpleNamespace(WORLD="all"), get_world_size=lambda: 2
    )
    monkeypatch.setattr(Exchange, "_found", lambda _: world)


@contextmanager
def watched(**options: Any) -> Iterator[None]:
    watch = gputop.watch(**options)
    try:
        yield
    finally:
        watch.stop()


def waiting(model: torch.nn.Module, seen: list[Callable[[], None]]) -> None:
    """As DistributedDataParallel: once the last gradient is there, ask to be called at the end, and wait there."""

    def hook(_: Any) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(seen[0])  # type: ignore[attr-defined]

    next(model.parameters()).register_hook(hook)


def trained(*, wait: bool = True) -> Iterator[torch.Tensor]:
    model, optimizer, loader = parts()
    if wait:
        waiting(model, [lambda: time.sleep(WAIT_S)])
    for (x,) in loader:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        yield loss.detach()


def test_the_wait_at_the_end_of_backward_is_comm(emitted: list[Segment], together: None) -> None:
    plain = list(trained())
    with watched():
        assert list(trained()) == plain
    check_sums(emitted)
    assert len(emitted) == 6
    for seg in emitted[1:]:
        assert seg.phases["comm"] >= WAIT_S * 1e9
        assert seg.phases["backward"] < WAIT_S * 1e9


def test_a_process_alone_has_no_exchange(emitted: list[Segment]) -> None:
    with watched():
        list(trained())
    assert len(emitted) == 6
    for seg in emitted:
        assert "comm" not in seg.phases
        assert seg.phases["backward"] >= WAIT_S * 1e9


def test_without_the_comm_hook_there_is_none_either(emitted: list[Segment], together: None) -> None:
    with watched(no_hooks=["comm"]):
        list(trained())
    assert not any("comm" in seg.phases for seg in emitted)


def test_nothing_is_left_on_the_loss(emitted: list[Segment], together: None) -> None:
    with watched():
        model, _, loader = parts()
        (x,) = next(iter(loader))
        loss = model(x).square().mean()
        calls: list[int] = []
        waiting(model, [lambda: calls.append(1)])
        loss.backward(retain_graph=True)
        loss.backward()
    assert calls == [1, 1]
    assert loss._backward_hooks is None


def test_an_error_inside_backward_leaves_the_next_one_in_order(emitted: list[Segment], together: None) -> None:
    def fail(_: Any) -> None:
        raise ArithmeticError("no gradient")

    with watched():
        model, optimizer, loader = parts()
        for at, (x,) in enumerate(loader):
            loss = model(x).square().mean()
            if at == 2:
                loss.register_hook(fail)
                with pytest.raises(ArithmeticError):
                    loss.backward()
                continue
            loss.backward()
            optimizer.step()
    check_sums(emitted)
    assert sum("comm" in seg.phases for seg in emitted) == 5


def test_a_name_of_the_scripts_own_takes_backward_and_leaves_the_exchange() -> None:
    acted = Acted()
    source = acted.construct(Source(0))
    acted.batch(source, 1)
    acted.work(2)
    with acted.phase("mine"):
        token = acted.ledger.backward(acted.now)
        acted.work(3)
        waited = acted.ledger.exchange(acted.now)
        acted.work(5)
        acted.ledger.done(waited, "comm", acted.now)
        acted.ledger.done(token, "backward", acted.now, 5 * MS)
    ((_, ms, phases),) = acted.finish()
    assert phases["mine"] == 3
    assert phases["comm"] == 5
    assert "backward" not in phases
    assert sum(phases.values()) <= ms


def test_the_device_has_a_mark_between_backward_and_the_exchange() -> None:
    queue = Queue()
    acted = Acted(regions=Regions(queue))
    queue.acted = acted
    source = acted.construct(Source(0))
    for _ in range(8):
        acted.batch(source, 1)
        token = acted.ledger.backward(acted.now)
        queue.launch(10)
        acted.work(1)
        waited = acted.ledger.exchange(acted.now)
        queue.launch(30)
        acted.work(1)
        acted.ledger.done(waited, "comm", acted.now)
        acted.ledger.done(token, "backward", acted.now, MS)
        acted.work(45)
    for record in records(acted)[1:]:
        assert record.gpu_ns is not None
        assert record.gpu_ns["backward"] == 10 * MS
        assert record.gpu_ns["comm"] == 30 * MS


def test_outside_of_a_backward_it_is_nothing() -> None:
    acted = Acted()
    assert acted.ledger.exchange(acted.now) is None
    source = acted.construct(Source(0))
    acted.batch(source, 1)
    assert acted.ledger.exchange(acted.now) is None
    acted.work(1)
    acted.finish()
    assert [told(seg)[2] for seg in acted.steps] == [{"data": 1.0}]


def test_a_group_made_anew_is_asked_for_its_size_again(emitted: list[Segment], monkeypatch: pytest.MonkeyPatch) -> None:
    group = SimpleNamespace(WORLD="one")
    world = SimpleNamespace(
        is_available=lambda: True, GroupMember=group, get_world_size=lambda: {"one": 1, "two": 2}[group.WORLD]
    )
    monkeypatch.setattr(Exchange, "_found", lambda _: world)
    with watched():
        for n, _ in enumerate(trained()):
            group.WORLD = "two" if n == 2 else group.WORLD
    assert ["comm" in seg.phases for seg in emitted] == [False] * 3 + [True] * 3
