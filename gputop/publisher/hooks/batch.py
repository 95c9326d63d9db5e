"""How many samples a batch holds: the first dimension of the first tensor in it."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 4


def samples_of(batch: Any) -> int | None:
    """The batch's size, for tensors and arrays in tuples, lists and mappings; None where that can't be told."""
    for _ in range(MAX_DEPTH):
        shape = getattr(batch, "shape", None)
        if shape is not None:
            try:
                return int(shape[0])
            except (IndexError, TypeError, ValueError):
                return None
        if isinstance(batch, (list, tuple)):
            if not batch:
                return None
            batch = batch[0]
        elif hasattr(batch, "values"):
            try:
                batch = next(iter(batch.values()))
            except (StopIteration, TypeError):
                return None
        else:
            return None
    return None
