"""Which characters a place can show, by its encoding, its locale and its terminal."""

from __future__ import annotations

import codecs
from collections.abc import Mapping

ASCII_TERMS = ("linux", "vt100", "vt220")
"""Terminals whose fonts lack blocks and arrows, whatever the locale says."""

COLORLESS_TERMS = ("dumb", "vt100", "vt220")
"""Terminals without colours."""


def is_unicode(encoding: str | None) -> bool:
    """Whether every character can be written in an encoding; None is one that isn't known."""
    try:
        return encoding is not None and codecs.lookup(encoding).name.startswith("utf")
    except LookupError:
        return False


def ascii_locale(environ: Mapping[str, str]) -> bool:
    """Whether the locale is one of ASCII by explicit wish. Python writes UTF-8 there all the same."""
    return environ.get("LC_ALL") in ("C", "POSIX")


def ascii_term(environ: Mapping[str, str]) -> bool:
    """Whether the terminal draws nothing but ASCII reliably."""
    return environ.get("TERM") in ASCII_TERMS
