"""Themes: which comes after which, and remembering one in the configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from gputop import config
from gputop.tui import keeping
from gputop.tui.options import Theme


def after(theme: Theme) -> Theme:
    """The next theme, in a ring."""
    every: tuple[Theme, ...] = get_args(Theme)
    return every[(every.index(theme) + 1) % len(every)]


def remember(theme: Theme, file: str) -> str:
    """Writes a theme into the configuration file (of no name: the usual one), and says where, or why it can't."""
    path = Path(file) if file else config.path_of()
    try:
        config.remember(path, "theme", theme)
    except OSError as error:
        return f"not remembered: {(error.strerror or str(error)).lower()}"
    except ValueError as error:
        return f"not remembered: {error}"
    return f"theme {theme} is in {keeping.short(path)}"
