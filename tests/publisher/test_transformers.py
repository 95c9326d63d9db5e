"""Hugging Face's Trainer: its callback on real trainings, and on a trainer acted out."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import gputop
from gputop.publisher import core
from gputop.publisher.segment import Segment
from tests.publisher.spoken import (
    INJECTED,
    line_of,
    model,
    need,
    run,
    same_training,
    share,
    training,
    two_epochs_of_six,
)

CODE = """
import os, time, warnings, logging
warnings.simplefilter("ignore")
logging.disable(logging.INFO)
import torch
torch.set_num_threads(1)
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed
from transformers.modeling_outputs import ModelOutput
way, kind = sys.argv[1:3]
watch_sites()
class Data(Dataset):
    def __len__(self): return 24
    def __getitem__(self, index):
        time.sleep(0.002)
        return {"x": torch.full((8,), index / 24), "labels": torch.tensor([1.0])}
losses = []
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    def forward(self, x, labels):
        time.sleep(0.004)
        out = self.net(x)
        loss = (out - labels).square().mean()
        if self.training:
            losses.append(float(loss))
        return {"loss": loss, "logits": out}
set_seed(5)
callbacks = []
if way != "plain":
    import gputop
    if way == "both":
        gputop.watch()
    callbacks = [gputop.TransformersCallback()]
arguments = dict(
    output_dir=os.getcwd(), num_train_epochs=2, per_device_train_batch_size=4, per_device_eval_batch_size=8,
    gradient_accumulation_steps=2 if kind == "accumulate" else 1, eval_strategy="epoch", save_strategy="epoch",
    report_to=[], disable_tqdm=True, use_cpu=True, logging_strategy="no")
if kind == "resume":
    arguments["num_train_epochs"] = 1
def make(callbacks):
    return Trainer(model=Net(), args=TrainingArguments(**arguments), train_dataset=Data(), eval_dataset=Data(),
                   callbacks=callbacks)
if kind == "resume":
    make([]).train()
    losses.clear()
    arguments["num_train_epochs"] = 2
trainer = make(callbacks)
trainer.train(resume_from_checkpoint=kind == "resume" or None)
time.sleep(0.3)
speak(losses=losses, random=torch.get_rng_state().sum().item())
"""


@pytest.mark.slow
def test_a_real_training_is_told_part_by_part(tmp_path: Path) -> None:
    need("transformers", "accelerate")
    said = run(tmp_path, CODE, "callback", "usual")
    steps = two_epochs_of_six(said, eval_ms=48)
    assert [step["epoch"] for step in steps] == [0] * 6 + [1] * 6
    assert all(step["optimizer_step"] for step in steps)
    assert share(said, "forward") > 4
    assert sum(step["phases_ns"]["data"] for step in steps) / 12e6 > 8
    assert steps[11]["dur_ns"] - sum(steps[11]["phases_ns"].values()) < 250e6, "what follows `train` is in no step"
    assert not any(step.get("partial") for step in steps)
    assert model(said)["name"] == "Net"
    assert line_of(CODE, "time.sleep(0.004)") in said["sites"]
    assert line_of(CODE, "time.sleep(0.002)") in said["sites"]
    assert all(site.startswith("train.py:") for site in said["sites"]), "no library's line"


@pytest.mark.slow
def test_losses_are_bit_identical_and_hooks_beside_it_count_nothing_twice(tmp_path: Path) -> None:
    need("transformers", "accelerate")
    plain = run(tmp_path, CODE, "plain", "usual")
    both = run(tmp_path, CODE, "both", "usual")
    off = run(tmp_path, CODE, "callback", "usual", env={"GPUTOP": "0"})
    same_training(plain, both, off, "losses", "random", steps=12)


@pytest.mark.slow
def test_accumulated_batches_make_one_step_and_a_resumed_training_goes_on_counting_epochs(tmp_path: Path) -> None:
    need("transformers", "accelerate")
    steps = training(run(tmp_path, CODE, "callback", "accumulate"))
    assert len(steps) == 6
    assert all(step["optimizer_step"] for step in steps)
    assert sum(step["batches"] for step in steps) == 12
    resumed = training(run(tmp_path, CODE, "callback", "resume"))
    assert len(resumed) == 6
    assert {step["epoch"] for step in resumed} == {1}


@pytest.mark.slow
def test_gputop_run_sees_it_without_a_change(tmp_path: Path) -> None:
    need("transformers", "accelerate")
    said = run(tmp_path, CODE, "plain", "usual", before=INJECTED)
    for step in two_epochs_of_six(said, eval_ms=40):
        assert {"forward", "backward", "optimizer"} <= set(step["phases_ns"])


class TrainerCallback:
    """As the library's base."""


@pytest.fixture
def callback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A callback made where `transformers` is what this test says."""
    fake = ModuleType("transformers")
    fake.TrainerCallback = TrainerCallback  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", fake)
    name = "gputop.publisher.integrations.transformers"
    monkeypatch.delitem(sys.modules, name, raising=False)
    made = gputop.TransformersCallback()
    assert isinstance(made, TrainerCallback)
    yield made
    sys.modules.pop(name, None)


def act(callback: Any, batches: Any, *, accumulate: int = 1) -> list[float]:
    """A trainer in small: the same calls in the same order."""
    torch.manual_seed(1)
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.Dropout(0.5), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(module.parameters(), 0.1)
    args = SimpleNamespace(process_index=1, local_process_index=0, world_size=2)
    state, control = SimpleNamespace(epoch=None), SimpleNamespace()
    more = {"model": module, "optimizer": optimizer, "train_dataloader": batches, "lr_scheduler": None}
    callback.on_train_begin(args, state, control, **more)
    losses = []
    for epoch in range(2):
        state.epoch = 3.0 + epoch
        iterator = iter(batches)
        while held := [batch for _, batch in zip(range(accumulate), iterator, strict=False)]:
            callback.on_step_begin(args, state, control, **more)
            for batch in held:
                loss = module(batch[0]).square().mean()
                loss.backward()
                losses.append(loss.item())
            callback.on_pre_optimizer_step(args, state, control, **more)
            optimizer.step()
            callback.on_optimizer_step(args, state, control, **more)
            optimizer.zero_grad()
            callback.on_step_end(args, state, control, **more)
    callback.on_train_end(args, state, control, **more)
    return losses


def loader() -> DataLoader[Any]:
    torch.manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(24, 8)), batch_size=4)


def caught_up(emitted: list[Segment]) -> list[Segment]:
    assert core.current is not None
    core.current.catch_up()
    return [seg for seg in emitted if seg.work]


def test_the_callback_names_epochs_and_ranks_and_ends_with_the_training(emitted: list[Segment], callback: Any) -> None:
    act(callback, loader())
    steps = caught_up(emitted)
    assert core.current is not None
    assert core.current.ledger.loop.seg is None, "nothing is open after the training"
    assert (core.current.more["rank"], core.current.more["world_size"]) == (1, 2)
    assert [seg.source.epoch for seg in steps] == [3] * 6 + [4] * 6
    assert all({"data", "forward", "backward", "optimizer"} <= set(seg.phases) for seg in steps)


def test_accumulated_batches_are_one_step(emitted: list[Segment], callback: Any) -> None:
    act(callback, loader(), accumulate=3)
    steps = caught_up(emitted)
    assert [seg.batches for seg in steps] == [3] * 4
    assert all(seg.optimizer for seg in steps)


def test_batches_that_no_hook_sees_make_steps(emitted: list[Segment], callback: Any) -> None:
    act(callback, list(loader()))
    steps = caught_up(emitted)
    assert [seg.source.epoch for seg in steps] == [3] * 6 + [4] * 6
    assert all({"data", "forward", "backward", "optimizer"} <= set(seg.phases) for seg in steps)


def test_it_names_the_optimizer_itself_where_the_hook_is_left_out(emitted: list[Segment], callback: Any) -> None:
    gputop.watch(no_hooks=("optimizer",))
    act(callback, loader())
    assert all(seg.optimizer and seg.phases["optimizer"] > 0 for seg in caught_up(emitted))


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
