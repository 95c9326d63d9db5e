"""Keras 3: `model.fit(..., callbacks=[gputop.KerasCallback()])`, on its torch, JAX and TensorFlow backends.

On torch the hooks see the parts of a step, and the callback says what they can't: epochs, and that the training is
over. Elsewhere one compiled function is forward, backward and optimizer at once: it is the phase `train_step`. On JAX
the wait for its batch is told apart; TensorFlow waits inside of what it has compiled.
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from time import monotonic_ns, time_ns
from typing import Any

from gputop.publisher import core
from gputop.publisher.entries import BEGIN, END, SAY
from gputop.publisher.hooks.batch import samples_of
from gputop.publisher.hooks.keras_optimizer import Updates
from gputop.publisher.hooks.patch import MARK, replace
from gputop.publisher.integrations.telling import Telling, here, quietly
from gputop.records import Model

JAX_TRAINER = "keras.src.backend.jax.trainer"

SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2}
"""Bytes of an element."""

_keras: Any = import_module("keras")


class KerasCallback(_keras.callbacks.Callback):  # type: ignore[misc]
    """Watches `fit`. May stand beside `gputop run` and `gputop.watch()`: nothing is counted twice.

    It has no method for a batch's end: Keras then may go on to the next batch before the last one's figures are known.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tell = Telling()
        self._backend = ""
        self._every = Updates()
        self._epoch, self._begun = 0, False
        self._known = 0
        self._undo: list[Callable[[], None]] = []

    @quietly
    def on_train_begin(self, logs: Any = None) -> None:
        """`fit` begins, its function for a batch is made."""
        self._put_back()
        self._backend = str(_keras.backend.backend())
        fields = {} if self._backend == "torch" else _framework(self._backend)
        self._tell.begin(self.model if self._backend == "torch" else None, **fields)
        publisher = here()
        if publisher is None or not publisher.active:
            return
        publisher.say(_model(self.model, publisher.run_id), "model")
        if callable(getattr(self.model, "train_function", None)):
            replace(self.model, "train_function", self._timed)
            self._undo.append(partial(_untimed, weakref.ref(self.model)))
        if self._known != id(publisher):
            self._known = id(publisher)
            publisher.undo.append(self._undo_all())
        if self._backend == "jax" and JAX_TRAINER in sys.modules:
            self._undo.append(replace(sys.modules[JAX_TRAINER].JAXEpochIterator, "_get_iterator", self._waited))

    @quietly
    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Its number, as Keras counts. The iterator for it is made next."""
        self._epoch, self._begun = epoch, True
        if self._backend != "torch":
            self._tell.done()

    @quietly
    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """On torch the batch is there; elsewhere the function of the step asks for it."""
        if self._backend == "torch":
            self._tell.batch(self._epoch)
        else:
            self._tell.batch(self._epoch, updates=self._updates(), waited=self._begun)
        self._begun = False

    @quietly
    def on_test_begin(self, logs: Any = None) -> None:
        """Validation, between two epochs."""
        self._tell.enter("eval")

    @quietly
    def on_test_end(self, logs: Any = None) -> None:
        """Back to the training."""
        self._tell.leave("eval")

    @quietly
    def on_train_end(self, logs: Any = None) -> None:
        """`fit` is about to return."""
        self._put_back()
        self._tell.rest()

    def _updates(self) -> bool:
        optimizer = getattr(self.model, "optimizer", None)
        return optimizer is None or self._every(optimizer)

    def _undo_all(self) -> Callable[[], None]:
        """Undoes what stands then, after a `fit` that raised; keeps neither callback nor model alive."""
        undos = self._undo

        def undo() -> None:
            while undos:
                undos.pop()()

        return undo

    def _put_back(self) -> None:
        self._undo_all()()

    def _timed(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """Keras's function for a batch; a step's work where no hook sees its parts."""
        tell, named = self._tell, self._backend != "torch"

        def train_function(*args: Any, **kwargs: Any) -> Any:
            if named:
                tell.enter("train_step")
            try:
                return original(*args, **kwargs)
            finally:
                if named:
                    tell.leave("train_step")
                else:
                    tell.done()

        return train_function

    def _waited(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """What makes the iterators that JAX's function for a batch draws from."""
        tell = self._tell

        def _get_iterator(epoch_iterator: Any) -> Any:
            return Waited(original(epoch_iterator), tell)

        return _get_iterator


def _untimed(model: weakref.ref[Any]) -> None:
    """Give the model its own function back. Only weakly known: that function holds the model."""
    one = model()
    original = getattr(getattr(one, "train_function", None), MARK, None)
    if one is not None and original is not None:
        one.train_function = original


class Waited(Iterator[Any]):
    """An iterator over batches; the wait in it is the phase `data`, but in a validation."""

    def __init__(self, iterable: Any, tell: Telling) -> None:
        self._iterator = iter(iterable)
        self._tell = tell

    def __next__(self) -> Any:
        publisher = core.current
        if publisher is None or not publisher.mine() or publisher.asking or self._tell.inside("eval"):
            return next(self._iterator)
        publisher.put((BEGIN, "data", monotonic_ns()))
        publisher.asking = True  # a torch DataLoader that Keras draws from is part of this wait
        batch = None
        try:
            batch = next(self._iterator)
        finally:
            publisher.asking = False
            now = monotonic_ns()
            publisher.put((END, "data", now))
            samples = samples_of(batch)
            if samples is not None:
                publisher.put((SAY, {"samples": samples}, now))
        return batch


def _model(model: Any, run_id: str) -> Model:
    """What is trained, as Keras knows it."""
    dtypes: dict[str, int] = {}
    devices: dict[str, int] = {}
    nbytes = 0
    for variable in model.trainable_variables:
        dtype, count = str(variable.dtype), math.prod(variable.shape)
        dtypes[dtype] = dtypes.get(dtype, 0) + count
        nbytes += count * SIZES.get(dtype, 4)
        device = getattr(getattr(variable, "value", None), "device", None)
        if _keras.backend.backend() == "torch" and device is not None:
            devices[str(device)] = devices.get(str(device), 0) + count
    optimizer = getattr(model, "optimizer", None)
    policy = getattr(getattr(model, "dtype_policy", None), "name", "")
    return Model(
        t=time_ns(),
        run_id=run_id,
        name=type(model).__name__,
        param_count=sum(dtypes.values()),
        param_bytes=nbytes,
        param_tensors=len(model.trainable_variables),
        dtypes=dtypes,
        devices=devices or None,
        autocast=policy.startswith("mixed_"),
        compiled=not getattr(model, "run_eagerly", False) if _keras.backend.backend() != "torch" else None,
        optimizer=type(optimizer).__name__ if optimizer is not None else None,
    )


def _framework(name: str) -> dict[str, Any]:
    module = sys.modules.get(name)
    return {"framework": name, "framework_version": str(getattr(module, "__version__", ""))} if module else {}
