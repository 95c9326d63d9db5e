"""Everything the screen can do, by name: typed words choose, Enter does it."""

from __future__ import annotations

from typing import get_args

from msgspec import structs
from textual.binding import Binding

from gputop.tui import book, keys, listing
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import Span
from gputop.tui.options import Theme
from gputop.tui.sheet import Deed, Sheet, Standing
from gputop.tui.tables import Column

WHAT, KEY = 26, 8
"""Cells of the names and of the keys; what each does has the rest."""

HIDDEN = frozenset({"palette", "next_run", "previous_run"})
"""What makes no sense to be chosen from a list."""


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """Pages and deeds first, then themes, then the page about each cause."""
    columns = (Column("what", WHAT, number=False), Column("key", KEY, number=False, rank=1),
               Column("", max(20, width - WHAT - KEY - 8), number=False, rank=2))  # fmt: skip
    entries = []
    for binding in (*keys.GENERAL, *keys.IN_TIME):
        if isinstance(binding, Binding) and binding.id not in HIDDEN:
            pressed = keys.shown(sight.remapped.get(binding.id or "", binding.key))
            name = (binding.id or binding.description).replace("_", " ")
            entries.append(_entry(columns, name, pressed, binding.tooltip or "", Deed("action", binding.action)))
    entries.sort(key=lambda entry: entry.key == "quit")  # Enter upon nothing typed must not end everything
    entries += [
        _entry(columns, f"theme {theme}", "", f"show this in {LOOKS[theme]}", Deed("action", f"theme('{theme}')"))
        for theme in get_args(Theme)
    ]
    entries += [_entry(columns, f"cause {name}", "", says, Deed("page", "cause", name))
                for _, name, says in book.listed()]  # fmt: skip
    entries.sort(key=lambda entry: _nearness(entry.key, at.filter.casefold()))
    drawn = listing.draw(entries, width, at, titles=listing.titles_of(columns), pick=True)
    return structs.replace(drawn, pinned=())  # what is typed stands in the last line already


LOOKS = {
    "auto": "tones that suit any background", "dark": "light on dark", "light": "dark on light",
    "contrast": "the strongest contrast", "ansi": "the terminal's own 16 colours",
}  # fmt: skip


def _nearness(name: str, typed: str) -> int:
    """Names that begin so go first, then those with a word that does, then those that have it anywhere."""
    typed = typed.strip()
    if not typed or name.startswith(typed):
        return 0
    return 1 if f" {typed}" in name else 2 if typed in name else 3


def _entry(columns: tuple[Column, ...], name: str, pressed: str, says: str, deed: Deed) -> listing.Entry:
    cells = [Span(name, "bold"), Span(pressed, "key"), Span(says, "dim")]
    return listing.Entry(
        key=name, values=(name, pressed or None, says or None), words=lambda: f"{name} {says}",
        draw=listing.table(columns, lambda: cells), opens=deed,
    )  # fmt: skip
