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
        self.inputs: dict[str, int] = {}
        """Bytes of the tensors that came on the CPU, by name and shape: of the first batch of each loader."""

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
        if not seen:
            self.inputs |= _on_cpu(batch)
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


def _on_cpu(batch: Any) -> dict[str, int]:
    """Bytes of the batch's tensors that lie on the CPU, by what to call them: "input 'tokens' 8x512 int64"."""
    if isinstance(batch, (list, tuple)):
        named = [(f"[{at}]", part) for at, part in enumerate(batch[:MAX_TENSORS])]
    elif hasattr(batch, "items"):
        named = [(f" {key!r:.40}", part) for key, part in list(batch.items())[:MAX_TENSORS]]
    else:
        named = [("", batch)]
    found: dict[str, int] = {}
    for name, part in named:
        if getattr(getattr(part, "device", None), "type", None) == "cpu":
            shape, kind = "x".join(str(size) for size in part.shape), str(part.dtype).removeprefix("torch.")
            found[f"input{name} {shape or 'scalar'} {kind}"] = int(part.nbytes)
    return found
