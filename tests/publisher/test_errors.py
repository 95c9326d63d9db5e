"""Errors and interrupts, wherever they strike: they pass through unchanged, and the steps after them are whole."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import gputop
from gputop.publisher import core
from gputop.publisher.entries import CLOSE, Entry
from gputop.publisher.hooks import syncs, transfers
from gputop.publisher.segment import Segment

PLAIN = {"data", "forward", "backward", "optimizer"}


class OnDevice(torch.Tensor):
    """A tensor that says that it lies on an accelerator."""


def lies(tensor: Any) -> bool:
    return isinstance(tensor, OnDevice)


class Failing(Dataset[torch.Tensor]):
    """Raises `error` for the samples of one batch, once."""

    error: BaseException | None = None

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> torch.Tensor:
        if self.error is not None and index == 8:
            error, self.error = self.error, None
            raise error
        return torch.full((4,), float(index))


class Broken(torch.autograd.Function):
    """Its backward raises."""

    error: BaseException

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        raise Broken.error


class Training:
    """A loop with a copy, a read, an evaluation and a checkpoint in each step, of which one part fails once."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 1e-6)
        self.data = Failing()
        self.loader: DataLoader[Any] = DataLoader(self.data, batch_size=4)
        self.val: DataLoader[Any] = DataLoader(TensorDataset(torch.zeros(4, 4)), batch_size=2)
        self.fails = ""
        self.error: BaseException = ArithmeticError()

    def part(self, name: str) -> None:
        if self.fails == name:
            self.fails = ""
            raise self.error

    def step(self, x: torch.Tensor) -> None:
        with torch._C.DisableTorchFunctionSubclass():
            held = torch.empty(4, 4).as_subclass(OnDevice)
            torch.Tensor.copy_(held, torch.empty(3, 7) if self.fails == "h2d" else x)
        self.part("forward")
        loss = self.model(x).square().mean()
        if self.fails == "backward":
            self.fails, Broken.error = "", self.error
            loss = Broken.apply(loss)
        loss.backward()
        handle = self.optimizer.register_step_pre_hook(lambda *_: self.part("optimizer"))
        try:
            self.optimizer.step()
        finally:
            handle.remove()
        held[: 2 if self.fails == "sync" else 1, 0].item()
        with gputop.phase("mine"):
            self.part("mine")
        for (v,) in self.val:
            self.model(v)
            self.part("eval")
        torch.save(Unsaved(self) if self.fails == "checkpoint" else {}, io.BytesIO())

    def run(self, steps: int) -> None:
        """Steps of a new pass; whatever fails ends it."""
        for n, x in enumerate(self.loader):
            if n >= steps:
                break
            self.step(x)


class Unsaved:
    """Can't be pickled."""

    def __init__(self, training: Training) -> None:
        self._training = training

    def __reduce__(self) -> Any:
        self._training.part("checkpoint")
        return object, ()


@pytest.fixture
def training(emitted: list[Segment]) -> Iterator[Training]:
    """It is watched as where there is a device."""
    pub = gputop.watch()
    assert core.current is not None
    undos = [syncs.install(core.current, lies), transfers.install(core.current, lies)]
    yield Training()
    for undo in reversed(undos):
        undo()
    pub.stop()


def whole(emitted: list[Segment], steps: int) -> bool:
    """Whether the last steps have all parts, each in one place."""
    assert core.current is not None
    assert core.current.active
    core.current.catch_up()
    core.current.put = core.current.plain_put()
    core.current.rest()
    core.current.catch_up()
    told = [seg for seg in emitted if seg.work]
    for seg in emitted:
        seg.settle()
        assert all(ns >= 0 for ns in seg.phases.values())
        assert sum(seg.phases.values()) <= seg.end - seg.start
    return all(
        {*PLAIN, "h2d", "sync", "mine", "eval", "checkpoint"} <= set(seg.phases) and seg.samples == 4
        for seg in told[-steps:]
    )


PLACES = ("data", "h2d", "forward", "backward", "optimizer", "sync", "mine", "eval", "checkpoint")


@pytest.mark.parametrize("kind", [ArithmeticError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("place", PLACES)
def test_errors_in_every_part_pass_through_and_the_next_steps_are_whole(
    training: Training, emitted: list[Segment], place: str, kind: type[BaseException]
) -> None:
    training.run(2)
    training.error = kind("on purpose")
    if place == "data":
        training.data.error = training.error
    else:
        training.fails = place
    with pytest.raises(RuntimeError if place in ("h2d", "sync") else kind) as caught:
        training.run(4)
    if place not in ("h2d", "sync"):
        assert caught.value is training.error
        assert not [note for note in getattr(training.error, "__notes__", ()) if "gputop" in note]
    training.fails = ""
    training.run(4)
    assert whole(emitted, 3)


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_interrupt_at_any_note_leaves_nothing_stuck(training: Training, emitted: list[Segment], when: str) -> None:
    training.run(2)
    publisher = core.current
    assert publisher is not None
    for at in itertools.count():  # notes of two steps: how many there are depends on how fast these are
        publisher.put = interrupted(publisher.plain_put(), at, when)
        try:
            training.run(2)
            break
        except KeyboardInterrupt:
            publisher.put = publisher.plain_put()
        training.run(4)
        assert whole(emitted, 3), at
    publisher.put = publisher.plain_put()
    assert at > 40


def interrupted(plain: Callable[[Entry], None], at: int, when: str) -> Callable[[Entry], None]:
    """What notes entries, and is interrupted at one of them: as by Ctrl-C, which strikes between any two calls."""
    left = [at]

    def put(entry: Entry) -> None:
        if entry[0] == CLOSE:  # where an iterator is dropped Python itself swallows what is raised
            plain(entry)
            return
        left[0] -= 1
        if when == "after" or left[0] >= 0:
            plain(entry)
        if left[0] == -1:
            raise KeyboardInterrupt

    return put


def test_an_exit_handler_that_trains_where_no_thread_can_start_goes_on_in_silence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    pub = gputop.watch()
    monkeypatch.setattr(threading, "main_thread", threading.Thread)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert list(gputop.steps(range(3))) == [0, 1, 2]
    assert core.current is not None
    assert (core.current.active, caplog.text) == (False, "")
    pub.stop()
