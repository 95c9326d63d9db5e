"""Which module an optimizer's parameters belong to: seen where the optimizer is made of `module.parameters()`.

That generator knows its module. Where the script made a list of them, the variables of its modules are looked at; local
variables are not, since before Python 3.13 to look at them changes what `locals()` has returned.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, GeneratorType
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.patch import replace
from gputop.publisher.oath import confess

MAX_KNOWN = 64
"""Modules remembered: scripts may make optimizers without end."""

MAX_FRAMES = 40
MAX_LOOKED_AT = 2_000
"""Variables and attributes looked at."""

INNER = ("module", "_orig_mod")
"""Where wrappers (DistributedDataParallel, torch.compile) keep what they wrap."""


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook `Optimizer.__init__`, which every optimizer goes through."""
    base = sys.modules["torch.optim.optimizer"].Optimizer
    publisher.modules.clear()

    def noticing(original: Callable[..., Any]) -> Callable[..., Any]:
        def __init__(self: Any, params: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            try:
                remember(publisher, params)
            except Exception as error:
                confess("model", error)
            original(self, params, *args, **kwargs)

        return __init__

    return replace(base, "__init__", noticing)


def remember(publisher: Publisher, params: Any) -> None:
    """Keep in mind (weakly) the module whose parameters these are, where that can be seen."""
    if type(params) is not GeneratorType:
        return
    frame = params.gi_frame
    module = frame.f_locals.get("self") if frame is not None else None
    if module is not None and hasattr(module, "named_parameters"):
        publisher.modules.append(weakref.ref(module))
        del publisher.modules[:-MAX_KNOWN]


def owner(publisher: Publisher, params: list[Any], frame: FrameType | None) -> Any:
    """The smallest module known, or found from `frame` on upwards, that holds all of `params`; None where none does."""
    wanted = {id(param) for param in params}
    named = publisher.named.get("model")
    known = [ref() for ref in ([named] if named is not None else []) + publisher.modules]
    return _smallest((one for one in known if one is not None), wanted) or _smallest(_variables(frame), wanted)


def _smallest(modules: Iterable[Any], wanted: set[int]) -> Any:
    best, fewest = None, sys.maxsize
    for module in modules:
        inner = _unwrapped(module)
        held = {id(param) for param in inner.parameters()}
        if wanted <= held and len(held) < fewest:
            best, fewest = inner, len(held)
    return best


def _unwrapped(module: Any) -> Any:
    """What a wrapper wraps, where that is all it holds."""
    for _ in range(4):
        children = vars(module).get("_modules") or {}
        name = next((name for name in INNER if name in children), None)
        if name is None or len(children) != 1 or vars(module).get("_parameters"):
            break
        module = children[name]
    return module


def _variables(frame: FrameType | None) -> Iterator[Any]:
    """Modules among the variables of the Python modules that called, and in the objects these name."""
    module_type = sys.modules["torch.nn"].Module
    seen: set[int] = set()
    looked = 0
    for _ in range(MAX_FRAMES):
        if frame is None:
            return
        scopes = [frame.f_globals]
        if sys.version_info >= (3, 13) and frame.f_locals is not frame.f_globals:
            scopes.append(dict(frame.f_locals))
        for scope in scopes:
            if id(frame.f_globals) in seen and scope is frame.f_globals:
                continue
            seen.add(id(frame.f_globals))
            for value in list(scope.values()):
                looked += 1
                if looked > MAX_LOOKED_AT:
                    return
                if issubclass(type(value), module_type):
                    yield value
                elif type(value).__module__ == frame.f_globals.get("__name__"):
                    held = getattr(value, "__dict__", None)
                    if type(held) is dict:
                        yield from [one for one in held.values() if issubclass(type(one), module_type)]
        frame = frame.f_back
