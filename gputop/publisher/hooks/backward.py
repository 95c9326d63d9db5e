"""Backward: `Tensor.backward` and `autograd.backward`, the outermost of nested calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.patch import all_of, replace


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook both ways into autograd's backward pass."""
    torch = sys.modules["torch"]
    publisher.ledger.loop.knows_backward = True
    inside = [False]

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if inside[0] or not publisher.active:
                return original(*args, **kwargs)
            token = None
            try:
                counts = get_ident() == publisher.live or publisher.trains()
                if counts:
                    inside[0] = True
                    token = publisher.ledger.backward(monotonic_ns())
            except Exception as error:
                publisher.fault("backward", error)
                counts = False
            if not counts:
                return original(*args, **kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                inside[0] = False
                try:
                    publisher.ledger.done(token, "backward", monotonic_ns())
                except Exception as error:
                    publisher.fault("backward", error)

        return backward

    return all_of([replace(torch.Tensor, "backward", timed), replace(torch.autograd, "backward", timed)])
