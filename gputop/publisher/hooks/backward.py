"""Backward: `autograd.backward`, the outermost of nested calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.entries import BACKWARD, BACKWARD_DONE, OPTIMIZER
from gputop.publisher.hooks.exchange import Exchange
from gputop.publisher.hooks.patch import replace


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook `autograd.backward`, which `Tensor.backward` goes through too."""
    torch = sys.modules["torch"]
    publisher.ledger.loop.knows_backward = True
    exchange = Exchange(publisher)
    inside = False

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if publisher.skip:  # only its time is noted of this step: every microsecond less counts
                if get_ident() == publisher.thread:
                    publisher.worked = True
                return original(*args, **kwargs)
            if inside or (get_ident() != publisher.live and not publisher.trains()):
                return original(*args, **kwargs)
            inside, hooked, whole = True, None, False
            try:  # from here on: an interrupt may strike between any two calls
                publisher.put((BACKWARD, None, monotonic_ns()))
                hooked = exchange.watch(args[0] if args else kwargs.get("tensors"))
                out = original(*args, **kwargs)
                whole = True
                return out
            finally:
                inside = False
                if hooked is not None:
                    hooked.remove()
                publisher.put((BACKWARD_DONE, None, monotonic_ns()))
                closure = publisher.closure
                if whole and closure is not None:
                    publisher.closure = None
                    if closure.running(sys._getframe(1)):
                        publisher.put((OPTIMIZER, closure.optimizer, monotonic_ns()))

        return backward

    return replace(torch.autograd, "backward", timed)
