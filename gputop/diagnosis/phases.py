"""What a phase's name means: which part of a training step it is, and whether such a part works the device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

COMPUTE = ("forward", "backward", "optimizer")
"""Phases in which a step does its own work: on a GPU they launch it, on a CPU they are it."""

MODEL = ("forward", "backward")
"""Those of the model itself: a step without either of them marked has it in what is left."""

EPISODIC = ("eval", "checkpoint")
"""Phases that come every so many steps and are no part of the training itself."""

STANDARD = frozenset((*COMPUTE, *EPISODIC, "data", "h2d", "sync", "comm", "self", "other"))
"""The phases that the publisher itself marks, and what is left."""

_ALIASES = {
    "fwd": "forward", "forward_pass": "forward", "model": "forward", "loss": "forward", "train": "forward",
    "train_step": "forward", "compute": "forward", "bwd": "backward", "backward_pass": "backward",
    "opt": "optimizer", "optim": "optimizer", "step": "optimizer", "update": "optimizer",
    "optimizer_step": "optimizer", "fetch": "data", "dataload": "data", "data_loading": "data", "loading": "data",
    "dataloader": "data", "input": "data", "next": "data", "to_device": "h2d", "transfer": "h2d", "copy": "h2d",
    "val": "eval", "valid": "eval", "validate": "eval", "validation": "eval", "evaluate": "eval",
    "evaluation": "eval", "test": "eval", "save": "checkpoint", "ckpt": "checkpoint", "saving": "checkpoint",
    "allreduce": "comm", "all_reduce": "comm",
}  # fmt: skip
"""Names that people give to the standard phases when they mark them themselves."""


def in_columns(steps: Sequence[Mapping[str, int]]) -> dict[str, list[float]]:
    """The steps' `phases_ns` by phase: what each step has of it, 0 where it has none."""
    return _columns(steps, 0)


def where_told(steps: Sequence[Mapping[str, int]]) -> dict[str, list[int | None]]:
    """The same with None where a step does not tell of the phase."""
    return _columns(steps, None)


def _columns(steps: Sequence[Mapping[str, int]], absent: int | None) -> dict[str, list[Any]]:
    names = list(steps[0]) if steps else []
    alike = len(names) > 1 and sum(map(len, steps)) == len(names) * len(steps)
    try:
        rows = list(map(itemgetter(*names), steps)) if alike else None
    except KeyError:
        rows = None
    if rows is not None:
        return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    return {name: [of.get(name, absent) for of in steps] for name in dict.fromkeys(chain.from_iterable(steps))}


HOST = "host"
"""The role of `other` and of a phase under a user's own name that is none of the known ones: host work."""


@lru_cache(1024)
def role(phase: str) -> str:
    """The standard phase that `phase` is, or "host" for what is left and for the user's own."""
    if phase in STANDARD:
        return HOST if phase == "other" else phase
    return _ALIASES.get(phase.lower(), HOST)
