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
    """Whether the terminal draws nothing but ASCII reliably: by its kind, or since it is one of GNU screen or tmux in a
    locale without UTF-8. There the one throws other characters away, the other draws "_" for each, as if all were 0."""
    if environ.get("TERM") in ASCII_TERMS:
        return True
    return bool(environ.get("STY") or environ.get("TMUX")) and "utf" not in _locale(environ).lower()


def _locale(environ: Mapping[str, str]) -> str:
    """The name of the locale of characters, as it was before Python, which knows no ASCII locale, named another."""
    names = ("LC_ALL", "LC_CTYPE", "LANG")
    name = next((name for name in names if environ.get(name)), "")
    if name == "LC_CTYPE" and environ[name] in COERCED and not was_given(name):
        name = "LANG"
    return environ.get(name, "")


COERCED = ("C.UTF-8", "C.utf8", "UTF-8")
"""What Python puts into LC_CTYPE where the locale is that of C (PEP 538)."""


def was_given(name: str) -> bool:
    """Whether this process was started with a variable, as far as the system tells."""
    try:
        with open("/proc/self/environ", "rb") as file:
            return any(line.startswith(f"{name}=".encode()) for line in file.read().split(b"\0"))
    except OSError:
        return True
