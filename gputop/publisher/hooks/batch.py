"""How many samples a batch holds: the first dimension of the first tensor in it."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 4


def samples_of(batch: Any) -> int | None:
    """The batch's size, for tensors and arrays in tuples, lists and mappings; None where that can't be told."""
    for _ in range(MAX_DEPTH):
        if isinstance(batch, (list, tuple)):
            if not batch:
                return None
            batch = batch[0]
        elif isinstance(batch, dict) or _maps(batch):
            try:
                batch = next(iter(batch.values()))
            except (StopIteration, TypeError):
                return None
        else:
            break
    try:
        return int(batch.shape[0])
    except (AttributeError, IndexError, TypeError, ValueError):
        return None


def _maps(batch: Any) -> bool:
    """Whether a batch is a mapping of another kind. (A sparse tensor has `values` too, but a shape of its own.)"""
    return hasattr(type(batch), "keys") and hasattr(type(batch), "values")
