"""How many distinct shapes a loader's batches have had: what is compiled or tuned is so for each of them."""

from __future__ import annotations

from typing import Any

MAX_TENSORS = 8
"""Tensors of a batch that are looked at."""

MAX_SHAPES = 1024
"""Shapes remembered for each loader: whoever has more has as good as one a step."""


class Shapes:
    """Shapes seen so far, by loader."""

    def __init__(self) -> None:
        self._seen: dict[int | None, set[tuple[Any, ...]]] = {}

    def see(self, loader_id: int | None, batch: Any) -> int | None:
        """One more batch: how many distinct ones there have been; None where it has no shape. Some 2 us."""
        try:
            shape = _shape(batch)
            hash(shape)
        except Exception:  # a batch may be anything
            return None
        if not shape:
            return None
        seen = self._seen.setdefault(loader_id, set())
        if len(seen) < MAX_SHAPES:
            seen.add(shape)
        return len(seen)


def _shape(batch: Any) -> tuple[Any, ...]:
    kind = type(batch)
    if kind is list or kind is tuple:
        parts = batch[:MAX_TENSORS]
    elif kind is dict or (hasattr(batch, "keys") and hasattr(batch, "values")):
        parts = list(batch.values())[:MAX_TENSORS]
    else:
        parts = (batch,)
    return tuple(tuple(shape) for part in parts if (shape := getattr(part, "shape", None)) is not None)
