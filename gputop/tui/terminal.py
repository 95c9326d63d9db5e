"""What this terminal can show, decided before the screen is made: colours and characters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from gputop import charset
from gputop.tui.options import Options

ColorLevel = Literal["none", "16", "256", "truecolor"]


class Terminal(msgspec.Struct, frozen=True):
    """The colours a terminal has, whether it is limited to ASCII, and whether its background is known to be light."""

    colors: ColorLevel
    ascii: bool
    light: bool | None = None


def examine(options: Options, environ: Mapping[str, str], encoding: str | None) -> Terminal:
    """The terminal that `environ` and the encoding of stderr speak of, as far as `options` leaves it open."""
    term = environ.get("TERM", "")
    return Terminal(
        colors=_colors(options, environ, term),
        ascii=options.ascii or charset.ascii_term(environ) or not charset.is_unicode(encoding),
        light=_light_background(environ.get("COLORFGBG", "")),
    )


def _colors(options: Options, environ: Mapping[str, str], term: str) -> ColorLevel:
    if options.color != "auto":
        return options.color
    if environ.get("NO_COLOR") or term in charset.COLORLESS_TERMS:
        return "none"
    if environ.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return "truecolor"
    if term.endswith("-256color") or term in ("xterm-kitty", "alacritty", "foot", "xterm-ghostty"):
        return "256"
    return "16"


def _light_background(colorfgbg: str) -> bool | None:
    background = colorfgbg.rpartition(";")[2]
    if not background.isdigit():
        return None
    return int(background) in (7, 15)
