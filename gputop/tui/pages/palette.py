"""Everything the screen can do, by name: typed words choose, Enter does it."""

from __future__ import annotations

from typing import get_args

from textual.binding import Binding

from gputop.tui import book, keys, listing
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import Span
from gputop.tui.options import Theme
from gputop.tui.sheet import Deed, Sheet, Standing
from gputop.tui.tables import Column

COLUMNS = (Column("what", 24, number=False), Column("key", 12, number=False, rank=1),
           Column("", 70, number=False, rank=2))  # fmt: skip

HIDDEN = frozenset({"palette", "next_run", "previous_run"})
"""What makes no sense to be chosen from a list."""


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """Pages and deeds first, then themes, then the page about each cause."""
    entries = []
    for binding in (*keys.GENERAL, *keys.IN_TIME):
        if isinstance(binding, Binding) and binding.id not in HIDDEN:
            pressed = keys.shown(sight.remapped.get(binding.id or "", binding.key))
            name = (binding.id or binding.description).replace("_", " ")
            entries.append(_entry(name, pressed, binding.tooltip or "", Deed("action", binding.action)))
    entries += [_entry(f"theme {theme}", "", "", Deed("action", f"theme('{theme}')")) for theme in get_args(Theme)]
    entries += [_entry(f"cause {name}", "", says, Deed("page", "cause", name)) for _, name, says in book.listed()]
    return listing.draw(entries, width, at, titles=listing.titles_of(COLUMNS), pick=True)


def _entry(name: str, pressed: str, says: str, deed: Deed) -> listing.Entry:
    cells = [Span(name, "bold"), Span(pressed, "key"), Span(says, "dim")]
    return listing.Entry(
        key=name, values=(name, pressed or None, says or None), words=lambda: f"{name} {says}",
        draw=listing.table(COLUMNS, lambda: cells), opens=deed,
    )  # fmt: skip
