"""Mixed precision: seen once, in the graph of the first backward, which is mostly called outside of `autocast`.

Autocast copies each float32 weight to the lower precision, so that the graph converts right at the weight. Nothing is
hooked but that one backward.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.patch import replace
from gputop.publisher.hooks.placed import operators_on_cpu
from gputop.publisher.oath import confess

MAX_NODES = 2_000
"""Nodes of the graph that are looked at: some milliseconds, once."""

LEAF = "AccumulateGrad"
CONVERSION = "ToCopyBackward0"
OPAQUE = ("Compiled", "Checkpoint")
"""What the name of a node begins with that hides others."""


def install(publisher: Publisher) -> Callable[[], None]:
    """Look at the first backward, and then no more."""
    autograd = sys.modules["torch"].autograd
    undo: Callable[[], None] | None = None
    looked = False

    def looking(original: Callable[..., Any]) -> Callable[..., Any]:
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            nonlocal looked
            if not looked and undo is not None:
                looked = True
                try:
                    undo()
                    publisher.autocast = in_mixed_precision(tensors)
                    publisher.cpu_operators = operators_on_cpu(tensors)
                except Exception as error:
                    confess("autocast", error)
            return original(tensors, *args, **kwargs)

        return backward

    undo = replace(autograd, "backward", looking)
    return undo


def in_mixed_precision(tensors: Any) -> bool | None:
    """Whether what led to these tensors ran under autocast; None where their graph doesn't show it."""
    torch = sys.modules["torch"]
    if torch.is_autocast_enabled():
        return True
    first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
    root = getattr(first, "grad_fn", None)
    if root is None:
        return None
    todo, seen = deque([root]), {root}
    weights = False
    while todo:
        node = todo.popleft()
        name = node.name()
        for deeper, _ in node.next_functions:
            if deeper is None or deeper in seen:
                continue
            if deeper.name().endswith(LEAF):
                if name == CONVERSION and deeper.variable.dtype == torch.float32:
                    return True
                weights = True
            seen.add(deeper)
            todo.append(deeper)
        if len(seen) > MAX_NODES or name.startswith(OPAQUE):
            return None
    return False if weights else None
