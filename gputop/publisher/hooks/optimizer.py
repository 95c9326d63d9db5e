"""Optimizer steps, through torch's own global hooks: they see optimizers made later, and the scaler's skipped steps."""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns, time_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.model import describe
from gputop.publisher.ledger import Token


def install(publisher: Publisher) -> Callable[[], None]:
    """Register the hooks. The first step of an optimizer also tells what model it trains."""
    module = sys.modules["torch.optim.optimizer"]
    open_marks: list[Token | None] = []
    known: set[int] = set()

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            if get_ident() == publisher.live or publisher.trains():
                if len(open_marks) > 8:  # steps that raised never came back for theirs
                    open_marks.clear()
                open_marks.append(publisher.ledger.optimizer(monotonic_ns(), id(optimizer)))
        except Exception as error:
            publisher.fault("optimizer", error)

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        try:
            if get_ident() != publisher.live or not open_marks:
                return
            token = open_marks.pop()
            publisher.ledger.done(token, "optimizer", monotonic_ns())
            if id(optimizer) not in known:
                known.add(id(optimizer))
                publisher.learn_device()
                publisher.say(describe(publisher, optimizer, time_ns()), "model")
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
