"""A list of rows that can be filtered, sorted and chosen from: the same for every page that has one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import isnan
from typing import NamedTuple, overload

from gputop.records import clean
from gputop.tui.lines import Line, Span, fit, wrap
from gputop.tui.sheet import Deed, Sheet, Standing
from gputop.tui.tables import Column, choose, heading, row

Value = float | str | None
"""What a row is sorted by; None goes last, whichever way."""


class Entry(NamedTuple):
    """A row: its identity, a value for each thing it can be sorted by, the words a filter looks in, what Enter does,
    and its lines at a width, `high` of them. Words and lines are made when they are needed: of a thousand rows few are
    in sight."""

    key: str
    values: Sequence[Value]
    words: Callable[[], str]
    draw: Callable[[int, str], list[Line]]
    opens: Deed | None = None
    high: int = 1


class Lines(Sequence[Line]):
    """The lines of entries one below the other, drawn when they are looked at."""

    def __init__(self, entries: Sequence[Entry], width: int, marked: str) -> None:
        self._entries, self._width, self._marked = entries, width, marked
        self.starts = [0]
        for entry in entries:
            self.starts.append(self.starts[-1] + entry.high)

    def __len__(self) -> int:
        return self.starts[-1]

    @overload
    def __getitem__(self, at: int) -> Line: ...

    @overload
    def __getitem__(self, at: slice) -> list[Line]: ...

    def __getitem__(self, at: int | slice) -> Line | list[Line]:
        """A line, or some in a row."""
        if isinstance(at, int):
            return self[at : at + 1][0]
        first, last, _ = at.indices(len(self))
        if first >= last:
            return []
        index = bisect_right(self.starts, first) - 1
        begin, drawn = self.starts[index], []
        while index < len(self._entries) and self.starts[index] < last:
            entry = self._entries[index]
            drawn += entry.draw(self._width, "▸" if entry.key == self._marked else " ")[: entry.high]
            index += 1
        return drawn[first - begin : last - begin]


def table(columns: tuple[Column, ...], cells: Callable[[], Sequence[Span]]) -> Callable[[int, str], list[Line]]:
    """How an entry of one line is drawn as a row of a table."""
    return lambda width, mark: [row(columns, choose(columns, width - 2), cells(), width, mark)]


def words_of(cells: Callable[[], Sequence[Span]]) -> Callable[[], str]:
    """What stands in the cells, to be looked through."""
    return lambda: " ".join(cell.text for cell in cells())


def titles_of(columns: Sequence[Column]) -> tuple[str, ...]:
    """What a table can be sorted by: its columns."""
    return tuple(column.title for column in columns)


def draw(
    entries: Sequence[Entry],
    width: int,
    at: Standing,
    *,
    titles: tuple[str, ...],
    columns: tuple[Column, ...] = (),
    above: Sequence[Line] = (),
    marked: str = "",
    pick: bool = False,
    nothing: str = "nothing to list",
) -> Sheet:
    """The entries that the filter keeps, in the order asked for. `above` and the headings of `columns` stay in place;
    `pick`: a row can be chosen, at first the one of key `marked`, and Enter does what it opens."""
    kept = arranged(entries, at)
    pinned = [*above]
    if at.filter or 0 <= at.column < len(titles):
        pinned.append(fit([Span(f" {clean(said(at, titles, len(kept), len(entries)), 200)}", "warn")], width))
    if columns and kept:
        pinned.append(heading(_arrowed(columns, at), choose(columns, width - 2), width))
    if not kept:
        text = f"nothing has '{clean(at.filter, 60)}' in it" if entries and at.filter else nothing
        return Sheet([fit([Span(f" {part}", "dim")], width) for part in wrap(text, width - 2, 4)], tuple(pinned),
                     titles=titles if entries else ())  # fmt: skip
    chosen = _chosen(kept, at.key or marked) if pick else -1
    lines = Lines(kept, width, kept[chosen].key if pick else marked)
    rows = tuple((entry.key, start) for entry, start in zip(kept, lines.starts, strict=False)) if pick else ()
    opens = kept[chosen].opens if chosen >= 0 else None
    return Sheet(lines, tuple(pinned), rows, chosen, opens, titles)


def arranged(entries: Sequence[Entry], at: Standing) -> list[Entry]:
    """Those that have every word of the filter, sorted: numbers from the largest, words from A, None last."""
    words = at.filter.casefold().split()
    kept = [entry for entry in entries if _has(entry, words)] if words else list(entries)
    if not kept or not 0 <= at.column < len(kept[0].values):
        return kept
    known = [entry for entry in kept if not _absent(entry.values[at.column])]
    numbers = all(isinstance(entry.values[at.column], int | float) for entry in known)

    def value(entry: Entry) -> float | str:
        found = entry.values[at.column]
        return float(found or 0) if numbers else str(found).casefold()

    known.sort(key=value, reverse=numbers != at.reverse)
    return known + [entry for entry in kept if _absent(entry.values[at.column])]


def _has(entry: Entry, words: Sequence[str]) -> bool:
    text = entry.words().casefold()
    return all(word in text for word in words)


def _absent(value: Value) -> bool:
    return value is None or (isinstance(value, float) and isnan(value))


def _chosen(kept: Sequence[Entry], key: str) -> int:
    return next((index for index, entry in enumerate(kept) if entry.key == key), 0)


def said(at: Standing, titles: Sequence[str], kept: int, every: int) -> str:
    """The filter and the order in words."""
    parts = [f"/{at.filter}  {kept} of {every}"] if at.filter else []
    if 0 <= at.column < len(titles):
        parts.append(f"sorted by {titles[at.column]}{', reversed' if at.reverse else ''}")
    return "   ".join(parts)


def _arrowed(columns: tuple[Column, ...], at: Standing) -> tuple[Column, ...]:
    """The same columns, the one that is sorted by with an arrow where it has room."""
    if not 0 <= at.column < len(columns):
        return columns
    down = columns[at.column].number != at.reverse
    out = list(columns)
    title = f"{out[at.column].title}{'↓' if down else '↑'}"
    out[at.column] = out[at.column]._replace(title=title[-out[at.column].width :])
    return tuple(out)
