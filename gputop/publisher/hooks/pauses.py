"""The garbage collector's pauses, in which no Python runs: told as moments where they are long."""

from __future__ import annotations

import gc
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher

LONG_NS = 1_000_000
"""Shorter pauses are no moment worth a mark."""

EVERY_NS = 100_000_000
"""Between two that are told, but for those of VERY_LONG_NS."""

VERY_LONG_NS = 10_000_000


def install(publisher: Publisher) -> Callable[[], None]:
    """Listen to the collector."""
    started = 0
    told = -EVERY_NS

    def collecting(phase: str, info: dict[str, Any]) -> None:
        nonlocal started, told
        if phase == "start":
            started = monotonic_ns()
            return
        now = monotonic_ns()
        took = now - started
        if took > LONG_NS and started and (took >= VERY_LONG_NS or now - told >= EVERY_NS):
            told = now
            publisher.note("gc", started, took, f"generation {info.get('generation')}")

    gc.callbacks.append(collecting)

    def undo() -> None:
        if collecting in gc.callbacks:
            gc.callbacks.remove(collecting)

    return undo
