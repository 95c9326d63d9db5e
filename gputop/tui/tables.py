"""A table as lines: columns of fixed width, numbers to the right, the first column given what is left over."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len

from gputop.tui.lines import Line, Span, crop, fit


class Column(NamedTuple):
    """A column: its heading, its width in cells, whether it is a number; columns of the highest `rank` go first."""

    title: str
    width: int
    number: bool = True
    rank: int = 0


@lru_cache(64)
def choose(columns: tuple[Column, ...], width: int) -> tuple[int, ...]:
    """The indices of the columns that fit, the lowest ranks kept longest; the first column always stays."""
    kept = list(range(len(columns)))
    while len(kept) > 1 and sum(columns[i].width + 2 for i in kept) > width:
        kept.remove(max(kept[1:], key=lambda i: (columns[i].rank, i)))
    return tuple(kept)


def heading(columns: Sequence[Column], kept: Sequence[int], width: int) -> Line:
    """The titles of the kept columns."""
    return row(columns, kept, [Span(column.title, "dim") for column in columns], width)


def row(columns: Sequence[Column], kept: Sequence[int], cells: Sequence[Span], width: int, mark: str = " ") -> Line:
    """One line of the table; `mark` is what stands in its first cell."""
    spans = [Span(mark, "bold")]
    for index in kept:
        column, (text, style) = columns[index], cells[index]
        text = crop(text, column.width)
        pad = " " * (column.width - cell_len(text))
        spans += [Span(pad + text if column.number else text + pad, style), Span("  ")]
    return fit(spans, width)
