"""A number for each loader, by which steps name it: the same for each pass over it."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

from gputop.publisher.frames import caller_site


class Numbers:
    """The loaders seen so far. None of them is kept alive."""

    def __init__(self) -> None:
        self._loaders: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._nameless: dict[str, int] = {}
        self._next = 0
        self._lines: dict[str, list[tuple[weakref.ref[Any], int]]] = {}
        """Loaders by the line that went through them first."""

    def of(self, loader: Any) -> int:
        """The loader's number. One made anew for each pass goes by its line."""
        number = self._number(loader, self._next)
        self._next = max(self._next, number + 1)
        return number

    def _number(self, loader: Any, following: int) -> int:
        if not isinstance(loader, Iterator) and hasattr(loader, "__weakref__"):
            with contextlib.suppress(TypeError):
                known = self._loaders.get(loader)
                if known is None:
                    known = self._loaders[loader] = self._heir(loader, _line_of(loader), following)
                return known
        return self._nameless.setdefault(_line_of(loader), following)

    def _heir(self, loader: Any, line: str, following: int) -> int:
        """The number of a loader of the same line that is gone by now, else the next one."""
        here = self._lines.setdefault(line, [])
        for at, (gone, number) in enumerate(here):
            if gone() is None:
                here[at] = weakref.ref(loader), number
                return number
        here.append((weakref.ref(loader), following))
        return following


def _line_of(loader: Any) -> str:
    return f"{type(loader).__name__} {caller_site()}"
