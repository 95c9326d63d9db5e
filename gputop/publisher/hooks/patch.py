"""Putting a function in another's place so that nobody can tell, and taking it away again without a trace."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

MARK = "_gputop_original"


def replace(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> Callable[[], None]:
    """Put `make(original)` at `owner.name`. Returns how to undo it: an inherited name is deleted, never set.

    A later patch by someone else is left alone: ours then only passes through to the original.
    """
    own = vars(owner)
    inherited = name not in own
    original = getattr(owner, name) if inherited else own[name]
    called = original.__func__ if isinstance(original, staticmethod) else original
    made = make(called)
    functools.update_wrapper(made, called)
    setattr(made, MARK, called)
    setattr(owner, name, made)

    def undo() -> None:
        if vars(owner).get(name) is not made:
            return
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)

    return undo


def all_of(undos: list[Callable[[], None]]) -> Callable[[], None]:
    """Undo several, the last first."""

    def undo() -> None:
        for one in reversed(undos):
            one()

    return undo
