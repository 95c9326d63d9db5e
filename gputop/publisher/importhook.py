"""Acting as soon as a module has been imported, without importing it and without being seen by it.

Stands alone: the injected start-up file loads it by its path, into environments that may not have gputop at all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def when_imported(name: str, act: Callable[[], None]) -> Callable[[], None]:
    """Call `act`, which must not raise, once the module is there: at once if it is. Returns how to call that off."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    if module is not None and not getattr(spec, "_initializing", False):
        act()
        return lambda: None
    finder = _Finder(name, act)
    sys.meta_path.insert(0, finder)

    def undo() -> None:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)

    return undo


class _Finder(MetaPathFinder):
    """Finds one module through all the others, and wraps its loader."""

    def __init__(self, name: str, act: Callable[[], None]) -> None:
        self._name = name
        self._act = act
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's spec with a loader that acts afterwards; None for every other module."""
        if fullname != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = _find(self, fullname, path, target)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _After(spec.loader, self._done)  # type: ignore[assignment]
        return spec

    def _done(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        self._act()


def _find(
    own: MetaPathFinder, fullname: str, path: Sequence[str] | None, target: ModuleType | None
) -> ModuleSpec | None:
    for finder in list(sys.meta_path):
        if finder is own or not hasattr(finder, "find_spec"):
            continue
        spec = finder.find_spec(fullname, path, target)
        if spec is not None:
            return spec
    return None


class _After:
    """A loader that is another one but for acting after the module has run, when it steps out of the way again."""

    def __init__(self, loader: Loader, act: Callable[[], None]) -> None:
        self._loader = loader
        self._act = act

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As the loader it stands for."""
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module, then act. The module sees its own loader."""
        loader = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = loader
        module.__loader__ = loader
        loader.exec_module(module)
        self._act()
