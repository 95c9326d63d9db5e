"""Lines of styled text as plain data: what is drawn, before any terminal is involved. Widths are terminal cells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len

ELLIPSIS = "…"
SEPARATOR = " · "


class Span(NamedTuple):
    """Text in one style; styles are names that a palette knows."""

    text: str
    style: str = ""


Line = tuple[Span, ...]


class Block(NamedTuple):
    """A rectangle of the screen and its lines, each exactly `width` cells; `keys` say what each line is about."""

    x: int
    y: int
    width: int
    height: int
    lines: tuple[Line, ...]
    keys: tuple[str, ...] = ()


def crop(text: str, cells: int) -> str:
    """At most `cells` cells of the text; an ellipsis stands for what was cut."""
    if cells <= 0:
        return ""
    if text.isascii() and len(text) <= cells:
        return text
    if cell_len(text) <= cells:
        return text
    out, used = [], 0
    for char in text:
        used += cell_len(char)
        if used > cells - 1:
            break
        out.append(char)
    return "".join(out) + ELLIPSIS


def fit(spans: Iterable[Span], cells: int) -> Line:
    """The spans cut or padded to exactly `cells` cells, without empty ones, neighbours of one style joined."""
    out: list[Span] = []
    left = max(0, cells)
    for text, style in spans:
        if left <= 0:
            break
        piece = crop(text, left)
        left -= cell_len(piece)
        _add(out, piece, style)
    if left > 0:
        _add(out, " " * left, "")
    return tuple(out)


def _add(out: list[Span], text: str, style: str) -> None:
    if not text:
        return
    if out and out[-1].style == style:
        out[-1] = Span(out[-1].text + text, style)
    else:
        out.append(Span(text, style))


def cut(line: Line, cells: int, width: int) -> tuple[Line, Line]:
    """A line of `width` cells in two, the first of `cells`; a wide character on the border becomes blanks."""
    first: list[Span] = []
    second: list[Span] = []
    used = 0
    for text, style in line:
        for char in text:
            wide = cell_len(char)
            if used < cells < used + wide:
                _add(first, " " * (cells - used), style)
                _add(second, " " * (used + wide - cells), style)
            else:
                _add(first if used < cells else second, char, style)
            used += wide
    return fit(first, cells), fit(second, width - cells)


def right(spans: Sequence[Span], cells: int) -> Line:
    """The spans at the right edge of `cells` cells."""
    pad = cells - sum(cell_len(span.text) for span in spans)
    return fit([Span(" " * max(0, pad)), *spans], cells)


def sides(left_spans: Sequence[Span], right_spans: Sequence[Span], cells: int) -> Line:
    """Left spans, then right ones at the right edge where both fit with two cells between; else the left ones alone."""
    used_left = sum(cell_len(span.text) for span in left_spans)
    used_right = sum(cell_len(span.text) for span in right_spans)
    gap = cells - used_left - used_right
    if gap < 2:
        return fit(left_spans, cells)
    return fit([*left_spans, Span(" " * gap), *right_spans], cells)


def pieces(parts: Iterable[str], cells: int, separator: str = SEPARATOR) -> str:
    """The parts joined, in order, as far as they fit whole; the first is cut if even it does not fit."""
    out = ""
    for part in parts:
        if not part:
            continue
        longer = f"{out}{separator}{part}" if out else part
        if cell_len(longer) > cells:
            if not out:
                return crop(part, cells)
            continue
        out = longer
    return out


_BREAKS = re.compile(r"\s+(?!(?:%|ms|s|W|G|°C)(?:\W|$))")
"""Where a text may be broken: not between a figure and its unit."""


def wrap(text: str, cells: int, rows: int) -> list[str]:
    """The text broken at spaces into at most `rows` rows of `cells` cells; the last ends in an ellipsis if cut."""
    if cells <= 0 or rows <= 0:
        return []
    out: list[str] = []
    row = ""
    words = _BREAKS.split(text.strip())
    for index, word in enumerate(words):
        longer = f"{row} {word}" if row else word
        if cell_len(longer) <= cells:
            row = longer
            continue
        if len(out) == rows - 1:
            out.append(crop(" ".join([row, *words[index:]]).strip(), cells))
            return out
        if row:
            out.append(row)
        row = word
        while cell_len(row) > cells and len(out) < rows - 1:
            head = _head(row, cells)
            out.append(head)
            row = row[len(head) :]
    if row:
        out.append(crop(row, cells))
    return out


def _head(text: str, cells: int) -> str:
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > cells:
            return text[: max(1, index)]
    return text


def code(text: str, cells: int) -> list[str]:
    """A line of code in pieces of at most `cells`: broken, never cut, since it is there to be typed; after a comma or a
    blank where there is one."""
    cells = max(8, cells)
    inner = " " * (len(text) - len(text.lstrip()))
    out = []
    while len(text) > cells:
        at = max(text.rfind(",", 0, cells), text.rfind(" ", len(inner), cells)) + 1
        at = at if at > max(cells // 2, len(inner)) else cells
        out.append(text[:at].rstrip())
        rest = text[at:].lstrip()
        text = inner + rest if len(inner) < cells // 2 else rest
    return [*out, text]


def plain(line: Line) -> str:
    """The text of a line."""
    return "".join(span.text for span in line)
