"""torch.compile: once it is used, the method patches that would break graphs are taken away."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.patch import replace


def install(publisher: Publisher, retreat: Callable[[], None]) -> Callable[[], None]:
    """Hook `torch.compile` itself, which `Module.compile` goes through too; `retreat` takes the patches away."""

    def noticing(original: Callable[..., Any]) -> Callable[..., Any]:
        def compile(*args: Any, **kwargs: Any) -> Any:  # noqa: A001
            try:
                publisher.compiled = True
                retreat()
            except Exception as error:
                publisher.fault("compile", error)
            return original(*args, **kwargs)

        return compile

    return replace(sys.modules["torch"], "compile", noticing)


def in_use() -> bool:
    """Whether the script has used it already, before anyone watched.

    What is only kept from being compiled (activation checkpointing does that) leaves no backend, but None.
    """
    backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", None) or {}
    return any(backend is not None for backend in tuple(backends.values()))
