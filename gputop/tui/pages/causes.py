"""Every cause that a verdict can name, with the page about each."""

from __future__ import annotations

from gputop.tui import book, listing
from gputop.tui.draw.sight import Sight
from gputop.tui.glyphs import tone_of
from gputop.tui.lines import Line, Span, fit
from gputop.tui.pages.cause import look_alikes
from gputop.tui.sheet import Deed, Sheet, Standing
from gputop.tui.tables import Column


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """One row a cause; those that the cause in question may be taken for come first."""
    columns = (
        Column("cause", 20, number=False),
        Column("family", 12, number=False, rank=2),
        Column("in one line", max(20, min(110, width - (42 if width >= 100 else 26))), number=False, rank=1),
    )
    near = look_alikes(at.about) if at.about else []
    order = {name: index for index, name in enumerate(near)}
    known = sorted(book.listed(), key=lambda one: order.get(one[1], len(order)))
    entries = [_entry(*one, columns, first=one[1] in order) for one in known]
    above: list[Line] = [fit([Span(" causes", "title"), Span("  Enter reads about one", "dim")], width)]
    if near:
        above.append(fit([Span(f" first those that {at.about} may be taken for", "dim")], width))
    above.append(fit([], width))
    return listing.draw(
        entries, width, at, titles=listing.titles_of(columns), columns=columns, above=above, pick=True,
        nothing="the pages about causes are not installed",
    )  # fmt: skip


def _entry(family: str, name: str, sentence: str, columns: tuple[Column, ...], *, first: bool) -> listing.Entry:
    cells = [Span(name, "bold" if first else tone_of(name)), Span(family, "dim"), Span(sentence)]
    return listing.Entry(
        key=name,
        values=(name, family, sentence),
        words=lambda: f"{name} {family} {sentence}",
        draw=listing.table(columns, lambda: cells),
        opens=Deed("page", "cause", name),
    )
