"""Warnings that have stood in the last line for long enough: from then on only their number does."""

from __future__ import annotations

from collections.abc import Iterable

TOLD_S = 60.0
"""How long a warning stands there in full. One that says something else, as by another count, is another one."""


class Told:
    """Remembers since when each warning was there."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def look(self, warnings: Iterable[str], now_s: float) -> frozenset[str]:
        """Those of the warnings that were told long enough, by monotonic seconds."""
        self._since = {text: self._since.get(text, now_s) for text in warnings}
        return frozenset(text for text, since in self._since.items() if now_s - since > TOLD_S)
