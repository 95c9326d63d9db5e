"""How many samples a batch holds: the first dimension of the first tensor in it."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 4

NOT_A_BATCH = frozenset({int, float, str, bytes, bool, type(None)})
"""Types told at once: to try them costs some microseconds."""


def samples_of(batch: Any) -> int | None:
    """The batch's size, for tensors and arrays in tuples, lists and mappings; None where that can't be told."""
    for _ in range(MAX_DEPTH):
        kind = type(batch)
        if kind is list or kind is tuple:
            if not batch:
                return None
            batch = batch[0]
            continue
        if kind in NOT_A_BATCH:
            return None
        try:
            return int(batch.shape[0])
        except (AttributeError, IndexError, TypeError, ValueError):
            pass
        try:
            batch = batch[0] if isinstance(batch, (list, tuple)) else next(iter(batch.values()))
        except Exception:  # a batch may be anything
            return None
    return None
