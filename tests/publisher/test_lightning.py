"""Lightning: its callback on real trainings, and on a trainer acted out."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gputop
from gputop.publisher import core, oath
from gputop.publisher.segment import Segment
from tests.publisher.spoken import (
    INJECTED,
    line_of,
    model,
    need,
    run,
    same_training,
    share,
    sums,
    training,
    two_epochs_of_six,
)

CODE = """
import os, time, warnings, logging
warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel("ERROR")
import torch
torch.set_num_threads(1)
import lightning.pytorch as pl
from torch.utils.data import DataLoader, Dataset
way, kind = sys.argv[1:3]
watch_sites()
class Data(Dataset):
    def __len__(self): return 24
    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((8,), index / 24)
class Batches:
    def __init__(self, loader): self.loader = loader
    def __len__(self): return len(self.loader)
    def __iter__(self):
        items = [self.loader.dataset[i] for i in range(4)]
        for _ in range(len(self)):
            time.sleep(0.008)
            yield torch.stack(items)
class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
        self.losses = []
    def training_step(self, batch, index):
        time.sleep(0.004)
        loss = self.net(batch).square().mean()
        self.losses.append(float(loss))
        if kind == "error" and len(self.losses) == 3:
            raise ArithmeticError("planted")
        return loss
    def validation_step(self, batch, index):
        self.log("v", self.net(batch).mean())
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)
torch.manual_seed(5)
net = Net()
loader = DataLoader(Data(), batch_size=4)
train = Batches(loader) if kind == "foreign" else loader
callbacks = []
if way != "plain":
    import gputop
    if way == "both":
        gputop.watch()
    callbacks = [gputop.LightningCallback()]
more = {"accumulate_grad_batches": 2} if kind == "accumulate" else {}
trainer = pl.Trainer(
    max_epochs=2, accelerator="cpu", logger=False, enable_progress_bar=False, enable_model_summary=False,
    default_root_dir=os.getcwd(), callbacks=callbacks, num_sanity_val_steps=0, **more)
try:
    trainer.fit(net, train, None if kind == "foreign" else DataLoader(Data(), batch_size=8))
except ArithmeticError:
    pass
time.sleep(0.05)
random = torch.get_rng_state().sum().item()
speak(losses=net.losses, random=random)
"""


@pytest.mark.slow
def test_a_real_training_is_told_part_by_part(tmp_path: Path) -> None:
    need("lightning")
    said = run(tmp_path, CODE, "callback", "usual")
    steps = two_epochs_of_six(said, eval_ms=40)
    assert [step["epoch"] for step in steps] == [0] * 6 + [1] * 6
    assert [step.get("first_of_epoch", False) for step in steps] == ([True] + [False] * 5) * 2
    assert all(step["optimizer_step"] for step in steps)
    assert share(said, "data") > 8
    assert share(said, "forward") > 4
    assert steps[11]["dur_ns"] - sum(steps[11]["phases_ns"].values()) < 50e6, "what follows `fit` is in no step"
    assert not any(step.get("partial") for step in steps)
    assert model(said)["name"] == "Net"
    assert line_of(CODE, "time.sleep(0.004)") in said["sites"]
    assert line_of(CODE, "time.sleep(0.002)") in said["sites"]
    assert all(site.startswith("train.py:") for site in said["sites"]), "no library's line"


@pytest.mark.slow
def test_losses_are_bit_identical_and_hooks_beside_it_count_nothing_twice(tmp_path: Path) -> None:
    need("lightning")
    plain = run(tmp_path, CODE, "plain", "usual")
    both = run(tmp_path, CODE, "both", "usual")
    off = run(tmp_path, CODE, "callback", "usual", env={"GPUTOP": "0"})
    same_training(plain, both, off, "losses", "random", steps=12)


@pytest.mark.slow
def test_accumulation_and_batches_of_no_torch_loader(tmp_path: Path) -> None:
    need("lightning")
    said = run(tmp_path, CODE, "callback", "accumulate")
    assert [step["optimizer_step"] for step in training(said)] == [False, True] * 6
    foreign = run(tmp_path, CODE, "callback", "foreign")
    steps = training(foreign)
    assert len(steps) == 12
    sums(foreign)
    assert share(foreign, "data") > 8
    assert share(foreign, "forward") > 4
    assert {step.get("samples") for step in steps} == {4}
    assert [step["epoch"] for step in steps] == [0] * 6 + [1] * 6


@pytest.mark.slow
def test_a_training_that_fails_ends_its_step(tmp_path: Path) -> None:
    need("lightning")
    said = run(tmp_path, CODE, "callback", "error")
    last = said["steps"][-1]
    assert last["partial"]
    assert last["dur_ns"] < 40e6, "what follows the error is in no step"


@pytest.mark.slow
def test_gputop_run_sees_it_without_a_change(tmp_path: Path) -> None:
    need("lightning")
    said = run(tmp_path, CODE, "plain", "usual", before=INJECTED)
    for step in two_epochs_of_six(said, eval_ms=40):
        assert {"forward", "backward", "optimizer"} <= set(step["phases_ns"])


class Callback:
    """As Lightning's base."""


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A callback made where `lightning.pytorch` is what this test says."""
    fake = ModuleType("lightning.pytorch")
    fake.Callback = Callback  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "lightning.pytorch", fake)
    name = "gputop.publisher.integrations.lightning"
    monkeypatch.delitem(sys.modules, name, raising=False)
    made = gputop.LightningCallback()
    assert isinstance(made, Callback)
    yield made
    sys.modules.pop(name, None)


def act(callback: Any, batches: Any, *, epochs: int = 2, automatic: bool = True, hooked: bool = True) -> list[float]:
    """A trainer in small: the same calls in the same order."""
    torch.manual_seed(1)
    module: Any = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    module.automatic_optimization = automatic
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    trainer = SimpleNamespace(optimizers=[optimizer], global_rank=3, local_rank=1, world_size=4, current_epoch=0)
    callback.setup(trainer, module, "fit")
    callback.on_train_start(trainer, module)
    losses = []
    for epoch in range(epochs):
        trainer.current_epoch = epoch + 5
        for index, batch in enumerate(batches):
            callback.on_train_batch_start(trainer, module, batch, index)
            loss = module(batch[0]).square().mean()
            callback.on_before_zero_grad(trainer, module, optimizer)
            optimizer.zero_grad()
            callback.on_before_backward(trainer, module, loss)
            loss.backward()
            callback.on_after_backward(trainer, module)
            callback.on_before_optimizer_step(trainer, module, optimizer)
            optimizer.step()
            losses.append(loss.item())
            callback.on_train_batch_end(trainer, module, None, batch, index)
        callback.on_validation_start(trainer, module)
        callback.on_validation_end(trainer, module)
    callback.on_train_end(trainer, module)
    return losses


def loader() -> DataLoader[Any]:
    torch.manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=4)


def caught_up(emitted: list[Segment]) -> list[Segment]:
    assert core.current is not None
    core.current.catch_up()
    return [seg for seg in emitted if seg.work]


def test_the_callback_names_epochs_ranks_and_forward_and_ends_with_the_training(
    emitted: list[Segment], callback: Any
) -> None:
    act(callback, loader())
    steps = caught_up(emitted)
    assert core.current is not None
    assert core.current.ledger.loop.seg is None, "nothing is open after the training"
    assert core.current.more["rank"] == 3
    assert core.current.more["world_size"] == 4
    assert [seg.source.epoch for seg in steps] == [5] * 6 + [6] * 6
    assert all({"data", "forward", "backward", "optimizer"} <= set(seg.phases) for seg in steps)
    assert "eval" in steps[5].phases
    assert not any(seg.partial for seg in steps)


def test_batches_that_no_hook_sees_make_steps(emitted: list[Segment], callback: Any) -> None:
    act(callback, list(loader()))
    steps = caught_up(emitted)
    assert [seg.source.epoch for seg in steps] == [5] * 6 + [6] * 6
    assert [seg.first for seg in steps] == ([True] + [False] * 5) * 2
    assert all({"data", "forward", "backward", "optimizer"} <= set(seg.phases) for seg in steps)
    assert {seg.samples for seg in steps} == {4}
    for seg in steps:
        assert sum(seg.phases.values()) <= seg.end - seg.start


def test_it_names_the_parts_itself_where_hooks_are_left_out(emitted: list[Segment], callback: Any) -> None:
    gputop.watch(no_hooks=("loader", "backward", "optimizer"))
    act(callback, loader())
    steps = caught_up(emitted)
    assert len(steps) == 12
    assert all({"data", "forward", "backward", "optimizer"} <= set(seg.phases) for seg in steps)
    assert all(seg.optimizer for seg in steps)


def test_in_manual_optimization_the_backwards_tell_where_forward_is(emitted: list[Segment], callback: Any) -> None:
    act(callback, loader(), automatic=False)
    steps = caught_up(emitted)
    assert len(steps) == 12
    assert all("forward" in seg.phases for seg in steps)


def test_the_callback_changes_no_loss_and_gputop_0_makes_it_nothing(
    emitted: list[Segment], callback: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = act(callback, loader())
    state = torch.get_rng_state()
    assert core.current is not None
    core.current.stop()
    given = len(emitted)
    monkeypatch.setenv("GPUTOP", "0")
    assert act(callback, loader()) == watched
    assert torch.equal(torch.get_rng_state(), state)
    assert len(emitted) == given


def test_the_callback_can_be_pickled_before_a_training_and_after_it(emitted: list[Segment], callback: Any) -> None:
    for _ in range(2):
        other = pickle.loads(pickle.dumps(callback))
        assert type(other) is type(callback)
        act(callback, list(loader()))
    act(pickle.loads(pickle.dumps(callback)), loader())
    assert len(caught_up(emitted)) == 36


def test_its_own_errors_never_reach_the_training(
    emitted: list[Segment], callback: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(oath, "_said", set())
    callback.on_train_start(None, None)
    callback.on_train_batch_start(None, None, None, 0)
    assert [record.levelname for record in caplog.records if record.name == "gputop"] == ["WARNING"] * 2
