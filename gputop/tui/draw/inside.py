"""The lines of the user's code in which a loader worker was found working, when it was looked into."""

from __future__ import annotations

from gputop.records import Site, clean
from gputop.tui import figures
from gputop.tui.lines import Line, Span, fit
from gputop.tui.tables import Column, choose, heading, row

MOST = 8
"""Rows of the table."""


def section(found: Site, now_ns: int, width: int) -> list[Line]:
    """The hottest lines with their share of the worker's work."""
    sites = [one for one in found.sites if one.phase == "worker"]
    whole = sum(one.samples for one in sites)
    about = f"its stacks as sampled {figures.held(now_ns - found.t)} ago"
    lines = [fit([], width), fit([Span(" inside a loader worker", "title"), Span(f"  {about}", "dim")], width)]
    columns = (Column("line", max(20, min(76, width - 34)), number=False), Column("of its work", 12, rank=0),
               Column("samples", 8, rank=1))  # fmt: skip
    kept = choose(columns, width - 2)
    lines.append(heading(columns, kept, width))
    for one in sorted(sites, key=lambda site: -site.samples)[:MOST]:
        cells = [Span(clean(one.site, 120)), Span(figures.pct(100 * one.samples / whole), "bold"),
                 Span(figures.count(one.samples), "dim")]  # fmt: skip
        lines.append(row(columns, kept, cells, width))
    return lines
