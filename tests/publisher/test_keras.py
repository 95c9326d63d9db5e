"""Keras 3: its callback on real trainings on each backend, and on a model acted out."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

import gputop
from gputop.publisher import core
from gputop.publisher.segment import Segment
from tests.publisher.spoken import INJECTED, line_of, need, run, same_training, share, training, two_epochs_of_six
from tests.publisher.spoken import model as model_of

CODE = """
import os, time, warnings
warnings.simplefilter("ignore")
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np
import keras
way, kind = sys.argv[1:3]
watch_sites()
class Data(keras.utils.PyDataset):
    def __len__(self): return 6
    def __getitem__(self, index):
        time.sleep(0.01)
        return np.full((4, 8), index / 6, "float32"), np.ones((4, 1), "float32")
keras.utils.set_random_seed(5)
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
more = {"gradient_accumulation_steps": 2} if kind == "accumulate" else {}
model.compile(optimizer=keras.optimizers.SGD(0.01, **more), loss="mse")
losses = []
class Losses(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None): losses.append(float(logs["loss"]))
callbacks = [Losses(), keras.callbacks.ModelCheckpoint(os.path.join(os.getcwd(), "m.keras"))]
if way not in ("plain", "watch"):
    import gputop
    if way == "both":
        gputop.watch()
    callbacks.append(gputop.KerasCallback())
elif way == "watch":
    import gputop
    gputop.watch()
before = getattr(model, "train_function", None)
model.fit(Data(), epochs=2, validation_data=Data(), callbacks=callbacks, verbose=0)
left = getattr(model.train_function, "_gputop_original", None) is not None
time.sleep(0.3)
speak(losses=losses, left=left, random=float(np.random.rand()), torch="torch" in sys.modules,
      weights=[float(np.sum(w)) for w in model.get_weights()])
"""

BACKENDS = {"torch": "torch", "jax": "jax", "tensorflow": "tensorflow"}


def keras_run(tmp: Path, backend: str, *args: str, **env: str) -> dict[str, Any]:
    need("keras", BACKENDS[backend])
    return run(tmp, CODE, *args, env={"KERAS_BACKEND": backend, **env})


@pytest.mark.slow
@pytest.mark.parametrize("backend", list(BACKENDS))
def test_a_real_training_is_told_part_by_part(tmp_path: Path, backend: str) -> None:
    said = keras_run(tmp_path, backend, "callback", "usual")
    steps = two_epochs_of_six(said, eval_ms=50)
    assert [step["epoch"] for step in steps] == [0] * 6 + [1] * 6
    first = [step.get("first_of_epoch", False) for step in steps]
    if backend == "torch":  # Keras makes the next epoch's iterator with the last batch of this one
        assert first == ([True, False, False, False, False, True]) * 2
    else:
        assert first == ([True] + [False] * 5) * 2
    assert all(step["optimizer_step"] for step in steps)
    if backend != "tensorflow":
        assert {step["samples"] for step in steps} == {4}
        assert share(said, "data") > 9
    if backend == "torch":
        assert all({"forward", "backward", "optimizer"} <= set(step["phases_ns"]) for step in steps)
    else:
        assert all(step["phases_ns"]["train_step"] > 0 for step in steps)
        assert said["more"]["framework"] == backend
    told = model_of(said)
    assert told["param_count"] == 8 * 8 + 8 + 8 + 1
    assert told["param_tensors"] == 4
    assert told["optimizer"] == "SGD"
    if backend != "tensorflow":
        assert line_of(CODE, "time.sleep(0.01)") in said["sites"]
    assert all(site.startswith("train.py:") for site in said["sites"]), "no library's line"
    assert steps[11]["dur_ns"] - sum(steps[11]["phases_ns"].values()) < 250e6, "what follows `fit` is in no step"
    assert not said["left"], "the model has its own function again"


@pytest.mark.slow
@pytest.mark.parametrize("backend", list(BACKENDS))
def test_losses_are_bit_identical_and_hooks_beside_it_count_nothing_twice(tmp_path: Path, backend: str) -> None:
    plain = keras_run(tmp_path, backend, "plain", "usual")
    both = keras_run(tmp_path, backend, "both", "usual")
    off = keras_run(tmp_path, backend, "callback", "usual", GPUTOP="0")
    same_training(plain, both, off, "losses", "weights", "random", steps=12)


@pytest.mark.slow
@pytest.mark.parametrize("backend", list(BACKENDS))
def test_gradients_that_accumulate(tmp_path: Path, backend: str) -> None:
    said = keras_run(tmp_path, backend, "callback", "accumulate")
    assert [step["optimizer_step"] for step in training(said)] == [False, True] * 6


@pytest.mark.slow
def test_gputop_run_sees_it_without_a_change(tmp_path: Path) -> None:
    need("keras")
    said = run(tmp_path, CODE, "plain", "usual", before=INJECTED, env={"KERAS_BACKEND": "torch"})
    for step in two_epochs_of_six(said, eval_ms=40):
        assert {"forward", "backward", "optimizer"} <= set(step["phases_ns"])


class Callback:
    """As Keras's base."""

    model: Any = None


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Makes a callback where `keras` is what this test says."""
    name = "gputop.publisher.integrations.keras"

    def made(backend: str) -> Any:
        fake: Any = ModuleType("keras")
        fake.callbacks = SimpleNamespace(Callback=Callback)
        fake.backend = SimpleNamespace(backend=lambda: backend)
        monkeypatch.setitem(sys.modules, "keras", fake)
        monkeypatch.delitem(sys.modules, name, raising=False)
        return gputop.KerasCallback()

    yield made
    sys.modules.pop(name, None)


class Optimizer:
    """Keras's, as far as its accumulation goes."""

    gradient_accumulation_steps: int | None = None
    built = True
    _iterations = 0


class Compiled:
    """A model whose function for a batch is one whole."""

    trainable_variables = (SimpleNamespace(dtype="float32", shape=(4, 2)),)

    def __init__(self) -> None:
        self.optimizer = Optimizer()
        self.train_function: Any = self.whole
        self.seen: list[Any] = []

    def whole(self, iterator: Any) -> float:
        self.seen.append(next(iterator))
        return float(len(self.seen))

    def fit(self, callback: Any, batches: Any, epochs: int = 2, trainer: Any = None) -> list[float]:
        """Keras's loop in small: the same calls in the same order."""
        callback.model = self
        callback.on_train_begin({})
        losses = []
        for epoch in range(epochs):
            callback.on_epoch_begin(epoch, {})
            iterator = iter(trainer.JAXEpochIterator()._get_iterator() if trainer else batches)
            for step in range(len(batches)):
                callback.on_train_batch_begin(step)
                losses.append(self.train_function(iterator))
            callback.on_test_begin()
            callback.on_test_end()
        callback.on_train_end({})
        return losses


BATCHES = [torch.zeros(4, 2)] * 5


def caught_up(emitted: list[Segment]) -> list[Segment]:
    assert core.current is not None
    core.current.catch_up()
    return [seg for seg in emitted if seg.work]


def test_one_compiled_function_is_the_phase_train_step(emitted: list[Segment], make: Callable[[str], Any]) -> None:
    model = Compiled()
    own = model.train_function
    assert model.fit(make("tensorflow"), BATCHES) == [float(n) for n in range(1, 11)]
    steps = caught_up(emitted)
    assert core.current is not None
    assert core.current.ledger.loop.seg is None, "nothing is open after the training"
    assert [seg.source.epoch for seg in steps] == [0] * 5 + [1] * 5
    assert [seg.first for seg in steps] == ([True] + [False] * 4) * 2
    assert all(seg.optimizer and seg.phases["train_step"] > 0 for seg in steps)
    assert "eval" in steps[4].phases
    assert model.train_function == own


def test_a_fit_that_raises_leaves_no_model_alive_and_stop_undoes_the_rest(
    emitted: list[Segment], make: Callable[[str], Any]
) -> None:
    callback, model = make("tensorflow"), Compiled()
    own = model.train_function
    callback.model = model
    callback.on_train_begin({})
    assert model.train_function != own
    assert core.current is not None
    core.current.stop()
    assert model.train_function == own
    callback.on_train_begin({})
    callback.model = None
    alive = weakref.ref(model)
    del model, own
    gc.collect()
    assert alive() is None


def test_a_training_in_another_thread_is_told_too(emitted: list[Segment], make: Callable[[str], Any]) -> None:
    callback, model = make("tensorflow"), Compiled()
    thread = threading.Thread(target=model.fit, args=(callback, BATCHES))
    thread.start()
    thread.join()
    assert len(caught_up(emitted)) == 10


def test_the_wait_inside_of_jax_s_function_is_data(
    emitted: list[Segment], make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class JAXEpochIterator:
        def _get_iterator(self) -> Any:
            return iter(BATCHES)

    own = JAXEpochIterator._get_iterator
    trainer: Any = ModuleType("keras.src.backend.jax.trainer")
    trainer.JAXEpochIterator = JAXEpochIterator
    monkeypatch.setitem(sys.modules, trainer.__name__, trainer)
    model = Compiled()
    model.optimizer.gradient_accumulation_steps = 2
    model.fit(make("jax"), BATCHES, trainer=trainer)
    steps = caught_up(emitted)
    assert all({"data", "train_step"} <= set(seg.phases) for seg in steps)
    assert {seg.samples for seg in steps} == {4}
    assert [seg.optimizer for seg in steps] == [False, True] * 5
    assert JAXEpochIterator._get_iterator is own


def test_the_callback_leaves_keras_its_own_pace_and_nothing_behind(
    emitted: list[Segment], make: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for late in ("on_batch_end", "on_train_batch_end", "on_test_batch_end", "on_predict_batch_end"):
        assert not hasattr(make("jax"), late), "Keras waits for each batch's figures where a callback has this"
    monkeypatch.setenv("GPUTOP", "0")
    model = Compiled()
    model.fit(make("tensorflow"), BATCHES)
    assert emitted == []
    assert "_gputop_original" not in vars(model.train_function)
