"""Optimizer steps, through torch's own global hooks: they see optimizers made later, and the scaler's skipped steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns, thread_time_ns, time_ns
from typing import Any

from gputop.publisher.closure import Closure
from gputop.publisher.core import Publisher
from gputop.publisher.detail import turned
from gputop.publisher.entries import CPU_FROM_NS, OPTIMIZER, OPTIMIZER_DONE
from gputop.publisher.hooks.model import Trained


def install(publisher: Publisher) -> Callable[[], None]:
    """Register the hooks. The first step of an optimizer also tells what model it trains."""
    module = sys.modules["torch.optim.optimizer"]
    trained = Trained(publisher)
    told = trained.told

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if publisher.skip:
            if not publisher.worked and get_ident() == publisher.thread:
                publisher.worked = True
            return
        if get_ident() == publisher.live or publisher.trains():
            publisher.closure = None
            if (kwargs or len(args) > 1) and _with_closure(args, kwargs):
                publisher.closure = Closure(id(optimizer), sys._getframe(1).f_code)  # forward and backward come first
                return
            publisher.put((OPTIMIZER, id(optimizer), monotonic_ns()))

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if publisher.skip:
            if not publisher.requests and publisher.mine():
                turned(publisher, id(optimizer), monotonic_ns())
            return
        if get_ident() == publisher.live:
            if publisher.closure is not None:
                publisher.closure = None
                publisher.put((OPTIMIZER, id(optimizer), monotonic_ns()))
            cpu, now = None if publisher.requests else _cpu(publisher), monotonic_ns()
            publisher.put((OPTIMIZER_DONE, cpu, now))
            if id(optimizer) not in told:
                tell(optimizer)
            if not publisher.requests:
                turned(publisher, id(optimizer), now)

    def tell(optimizer: Any) -> None:
        """Of several optimizers the first is told at once, the others together, when one steps again."""
        try:
            if id(optimizer) not in trained.known and not trained.meet(optimizer):
                return
            publisher.learn_device()
            publisher.say(trained.describe(time_ns(), sys._getframe(2)), "model")
        except Exception as error:
            publisher.fault("optimizer", error)

    handles = [
        module.register_optimizer_step_pre_hook(before),
        module.register_optimizer_step_post_hook(after),
    ]

    def undo() -> None:
        for handle in handles:
            handle.remove()

    return undo


def _cpu(publisher: Publisher) -> int | None:
    """The thread's CPU time, where no loader is asked and the next step may begin here: but of very short steps."""
    now, before = monotonic_ns(), publisher.asked_at
    publisher.asked_at = now
    return thread_time_ns() if now - before > CPU_FROM_NS else None


def _with_closure(args: Any, kwargs: Any) -> bool:
    return bool((len(args) > 1 and args[1] is not None) or kwargs.get("closure") is not None)
