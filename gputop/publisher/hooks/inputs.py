"""Inputs left on the CPU, by the parameter of the model's `forward` that their place in the batch stands for."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Sequence
from typing import Any

PLACE = re.compile(r"input(?:\[(\d+)\])? (?=[^'])")
"""What an input's name begins with that has only a place in its batch, or is the whole batch."""

BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def with_parameters(inputs: Iterable[str], models: Sequence[Any]) -> list[str]:
    """The inputs' names, "input[0] 32x10 float32", with the parameter of that place: "input[0] 'x' 32x10 float32".

    As they are where there is not one model, where its `forward` has no such parameter, or where the batch has names.
    The place is kept, since a script may hand its batch over in another order.
    """
    parameters = _parameters(models[0]) if len(models) == 1 else []

    def named(found: re.Match[str]) -> str:
        at = int(found[1] or 0)
        return f"{found[0]}'{parameters[at]}' " if at < len(parameters) else found[0]

    return [PLACE.sub(named, one, count=1) for one in inputs]


def _parameters(model: Any) -> list[str]:
    """Names of what `forward` takes by place, in their order; none where its signature can't be had."""
    try:
        parameters = inspect.signature(model.forward).parameters.values()
    except (AttributeError, TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.kind in BY_PLACE]
