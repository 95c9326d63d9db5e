"""gputop: why is the GPU idle while this trains?

This module is what a training script touches. It imports nothing heavy; the publisher is loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputop.version import __version__

__all__ = ["__version__", "mark", "phase", "steps", "watch"]

if TYPE_CHECKING:
    from gputop.publisher.api import mark, phase, steps, watch


def __getattr__(name: str) -> Any:
    if name in ("watch", "steps", "phase", "mark"):
        from gputop.publisher import api

        value = getattr(api, name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'gputop' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
