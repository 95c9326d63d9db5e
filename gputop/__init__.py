"""gputop: why is the GPU idle while this trains?

This module is what a training script touches. It imports nothing heavy; the publisher is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputop.version import __version__

__all__ = ["__version__", "mark", "phase", "steps", "watch"]

if TYPE_CHECKING:
    from gputop.publisher.api import mark, phase, steps, watch
    from gputop.publisher.integrations.keras import KerasCallback as KerasCallback
    from gputop.publisher.integrations.lightning import LightningCallback as LightningCallback
    from gputop.publisher.integrations.transformers import TransformersCallback as TransformersCallback

CALLBACKS = {"LightningCallback": "lightning", "TransformersCallback": "transformers", "KerasCallback": "keras"}
"""Those of training frameworks, by the module that holds each: it imports the framework."""


def __getattr__(name: str) -> Any:
    if name in ("watch", "steps", "phase", "mark"):
        from gputop.publisher import api

        value = getattr(api, name)
        globals()[name] = value
        return value
    if name in CALLBACKS:
        from importlib import import_module

        return getattr(import_module(f"gputop.publisher.integrations.{CALLBACKS[name]}"), name)
    raise AttributeError(f"module 'gputop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *CALLBACKS])
