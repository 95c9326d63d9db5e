"""Aside: what a disk may hold up is done on a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread


def aside(does: Callable[[], object]) -> None:
    """Does it on a thread of its own, which nobody waits for."""
    Thread(target=does, name="gputop-work", daemon=True).start()
