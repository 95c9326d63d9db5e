"""The optimizer of Keras on its torch backend, which is none of torch's: `apply` is its step."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from time import monotonic_ns, thread_time_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.entries import OPTIMIZER, OPTIMIZER_DONE
from gputop.publisher.hooks.patch import all_of, replace
from gputop.publisher.importhook import when_imported
from gputop.publisher.oath import confess

MODULE = "keras.src.optimizers.base_optimizer"


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook `apply` as soon as Keras is there, if its backend is torch: others trace it into a compiled step."""
    undos: list[Callable[[], None]] = []

    def hook() -> None:
        try:
            if publisher.active and sys.modules["keras.src.backend"].backend() == "torch":
                undos.append(replace(sys.modules[MODULE].BaseOptimizer, "apply", _apply(publisher)))
        except Exception as error:
            confess("hook keras", error)

    undos.append(when_imported(MODULE, hook))
    return all_of(undos)


def _apply(publisher: Publisher) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    updates = Updates()

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
            if not publisher.trains() or not updates(self):
                return original(self, *args, **kwargs)
            publisher.put((OPTIMIZER, id(self), monotonic_ns()))
            try:
                return original(self, *args, **kwargs)
            finally:
                cpu = None if publisher.requests else thread_time_ns()
                publisher.put((OPTIMIZER_DONE, cpu, monotonic_ns()))

        return apply

    return make


class Updates:
    """Whether an optimizer's next call updates the weights or only accumulates gradients, by counting its calls.

    The count that the optimizer itself keeps lies on the device: it is read once, before the first call.
    """

    def __init__(self) -> None:
        self._calls: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()

    def __call__(self, optimizer: Any) -> bool:
        every = getattr(optimizer, "gradient_accumulation_steps", None)
        if not every:
            return True
        try:
            calls = self._calls.get(optimizer)
            if calls is None:
                calls = int(optimizer._iterations) if optimizer.built else 0
            self._calls[optimizer] = calls + 1
        except Exception:  # another version's optimizer
            return True
        return bool((calls + 1) % every == 0)
