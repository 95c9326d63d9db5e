"""Calls that have hung before: each is left out for a while, so that one that hangs costs its own figures alone."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.samplers.asking import Failed
from gputop.samplers.protocol import S, Say


class Hung:
    """Stands between a backend and its `Say`: refuses, in place of a call that has hung, what that call would tell."""

    def __init__(self, say: Say) -> None:
        self._say = say
        self._told: dict[str, int] = {}
        self._until: dict[str, int | None] = {}

    def told(self, calls: Mapping[str, int]) -> None:
        """Leave these calls out, each for so long (ns)."""
        if calls != self._told:
            self._told = dict(calls)
            self._until = dict.fromkeys(calls)

    def at(self, now_ns: int) -> None:
        """It is `now_ns`: times count from the first look on; calls whose time is over are made again."""
        known = {call: now_ns + self._told[call] if end is None else end for call, end in self._until.items()}
        self._until = {call: end for call, end in known.items() if end > now_ns}

    def __call__(self, call: str) -> None:
        """Say which call comes next. Raises Failed where it is to be left out."""
        if call in self._until:
            raise Failed(f"{call.partition(' ')[0]} has hung: it is left out for {self._told[call] / (60 * S):.0f} min")
        self._say(call)
