"""Saving: `torch.save` is `checkpoint` time, and a moment on the time axis."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.detail import unusual
from gputop.publisher.entries import SAVE, SAVED
from gputop.publisher.hooks.patch import replace


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook `torch.save`."""
    return replace(sys.modules["torch"], "save", saving(publisher))


def saving(publisher: Publisher) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes a function's time a checkpoint: the outermost one's, where it calls others that save."""

    def timed(original: Callable[..., Any]) -> Callable[..., Any]:
        def save(*args: Any, **kwargs: Any) -> Any:
            if publisher.saving or not publisher.mine():
                return original(*args, **kwargs)
            unusual(publisher)
            start = monotonic_ns()
            publisher.saving = True
            try:
                publisher.put((SAVE, None, start))
                return original(*args, **kwargs)
            finally:
                publisher.saving = False
                try:
                    now = monotonic_ns()
                    publisher.put((SAVED, None, now))
                    publisher.note("checkpoint", start, now - start, None)
                except Exception as error:
                    publisher.fault("checkpoint", error)

        return save

    return timed
