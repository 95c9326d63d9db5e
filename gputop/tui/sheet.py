"""A page as it is drawn: lines that stay, lines that scroll, and among them the rows that can be chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

import msgspec

from gputop.tui.draw.sight import Sight
from gputop.tui.lines import Line

PAGES = (
    "why",
    "gpus",
    "processes",
    "runs",
    "help",
    "info",
    "cause",
    "causes",
    "zoom",
    "recordings",
    "ranks",
    "palette",
)
"""Pages by name. Each is a module of gputop.tui.pages with `draw(sight, width) -> list[Line]`, or with
`sheet(sight, width, height, at) -> Sheet` where it has rows to choose, or depends on where it stands."""


class Deed(NamedTuple):
    """What Enter does: `kind` is "page", "run", "replay" or "action"; `what` says which, `about` goes to a page."""

    kind: str
    what: str
    about: str = ""


class Standing(msgspec.Struct, frozen=True):
    """Where a page stands: what it is about, which rows it keeps, by which column (-1: none) they are sorted, and the
    row that is chosen."""

    about: str = ""
    filter: str = ""
    column: int = -1
    reverse: bool = False
    key: str = ""


class Sheet(msgspec.Struct, frozen=True):
    """A page drawn. `rows` are the keys of the rows that can be chosen, each with its first line among `lines`."""

    lines: Sequence[Line]
    pinned: tuple[Line, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()
    chosen: int = -1
    opens: Deed | None = None
    titles: tuple[str, ...] = ()
    """What the rows can be sorted by."""
    aside: int = 0
    """Cells at the right that change more often than the rest: in a pane of their own they cost only themselves."""


def sheet(name: str, sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """The page of that name; `height` is the lines there are for it."""
    page = import_module(f"gputop.tui.pages.{name}")
    if hasattr(page, "sheet"):
        made: Sheet = page.sheet(sight, width, height, at)
        return made
    opens: Callable[[Sight], Deed | None] | None = getattr(page, "opens", None)
    return Sheet(page.draw(sight, width), opens=None if opens is None else opens(sight))
