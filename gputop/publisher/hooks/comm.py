"""Collectives that the script calls itself, as phase `comm`; FSDP's are called from Python too, and seen.

Those that DistributedDataParallel makes are not: `hooks/exchange.py` marks what backward waits for them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.entries import BEGIN, END
from gputop.publisher.hooks.patch import all_of, replace

COLLECTIVES = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all", "all_to_all_single",
    "barrier", "broadcast", "broadcast_object_list", "gather", "gather_object", "monitored_barrier", "recv", "reduce",
    "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list", "send",
)  # fmt: skip
"""Functions of `torch.distributed` that wait for other ranks, or queue work that does."""

QUEUED = "Work"
"""The class of what `async_op=True` gives, whose `wait` is where the script waits then."""


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook those that there are; nested ones count once."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available():
        return lambda: None
    inside = False

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def collective(*args: Any, **kwargs: Any) -> Any:
            nonlocal inside
            if inside or get_ident() != publisher.live:
                return original(*args, **kwargs)
            inside = True
            try:
                publisher.put((BEGIN, "comm", monotonic_ns()))
                return original(*args, **kwargs)
            finally:
                inside = False
                publisher.put((END, "comm", monotonic_ns()))

        return collective

    names = [name for name in COLLECTIVES if hasattr(distributed, name)]
    undos = [replace(distributed, name, timed) for name in names]
    work = getattr(distributed, QUEUED, None)
    if work is not None and "wait" in vars(work):
        undos.append(replace(work, "wait", timed))
    return all_of(undos)
