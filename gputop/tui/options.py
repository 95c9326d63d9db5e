"""What the screen is given: where its views come from and how the person wants them drawn."""

from __future__ import annotations

from typing import Literal, Protocol

import msgspec

from gputop.view import View

Color = Literal["auto", "none", "16", "256", "truecolor"]
Theme = Literal["auto", "dark", "light", "contrast", "ansi"]


class Picture(Protocol):
    """Where views come from. `view` returns the latest one at once and never waits; `close` ends what feeds it."""

    def view(self) -> View: ...

    def close(self) -> None: ...


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to draw. `refresh` is in seconds; `color` "auto" and `ascii` False leave the choice to the terminal."""

    refresh: float = 1.0
    ascii: bool = False
    color: Color = "auto"
    theme: Theme = "auto"
    mouse: bool = True
    slow_link: bool = False
    no_cmdline: bool = False
    debug: bool = False
