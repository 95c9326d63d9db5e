"""Functions that `torch.compile` compiles anew: its own counters, compared once a second; nothing is hooked."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gputop.publisher.core import Publisher


def install(publisher: Publisher) -> Callable[[], None]:
    """Compare from now on."""
    known = 0

    def look(now: int) -> None:
        nonlocal known
        count = recompiled()
        more, known = count - known, count
        if more > 0:
            publisher.note("recompile", now, 0, f"{more} function{'' if more == 1 else 's'} compiled again")

    publisher.each_second.append(look)
    return lambda: publisher.each_second.remove(look)


def recompiled() -> int:
    """How often a function was compiled that had been so before."""
    counter = getattr(sys.modules.get("torch._dynamo.convert_frame"), "FRAME_COMPILE_COUNTER", None)
    if not isinstance(counter, dict):
        return 0
    counts: list[int] = list(counter.values())
    return sum(counts) - len(counts)
