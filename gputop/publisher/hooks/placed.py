"""Operators that ran on the CPU, as the graph of a backward shows: each node knows where its gradient will lie.

Inputs that were left on the CPU show here too: torch refuses an operator whose operands lie apart, so what takes such
an input without an error is computed there itself.
"""

from __future__ import annotations

import re
from collections import deque
from typing import Any

MAX_NODES = 2_000
"""Nodes of the graph that are looked at: some milliseconds, once."""

MAX_NAMES = 4

CONVERSION = "ToCopy"
"""The copy between two devices itself, which is no computation."""


def operators_on_cpu(tensors: Any) -> list[str]:
    """Names of the first operators that ran on the CPU, nearest to the loss first: "operator mse_loss"."""
    first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
    root = getattr(first, "grad_fn", None)
    if root is None:
        return []
    todo, seen, names = deque([root]), {root}, dict[str, None]()
    while todo and len(seen) < MAX_NODES and len(names) < MAX_NAMES:
        node = todo.popleft()
        kind = node.name()
        if kind.endswith(tuple("0123456789")) and CONVERSION not in kind and _on_cpu(node):
            names[f"operator {_spoken(kind)}"] = None
        for deeper, _ in node.next_functions:
            if deeper is not None and deeper not in seen:
                seen.add(deeper)
                todo.append(deeper)
    return list(names)


def _on_cpu(node: Any) -> bool:
    """Whether all that the operator gave lies on the CPU; torch 2.4 and older don't tell."""
    given = getattr(node, "_input_metadata", None) or ()
    return bool(given) and all(one.device.type == "cpu" for one in given)


def _spoken(kind: str) -> str:
    """A node's name as the operator is called: MseLossBackward0 is mse_loss."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"Backward\d+$", "", kind)).lower()
