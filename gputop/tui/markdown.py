"""Markdown as lines: headings, paragraphs, lists, tables and code, as far as the pages about causes use them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from gputop.records import clean
from gputop.tui.lines import Line, Span, code, fit

_INLINE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\*([^*\s][^*]*)\*|\[([^\]]+)\]\([^)]*\)")
_ITEM = re.compile(r"(?:-|\*|\d+\.) +")


def lines(text: str, width: int) -> list[Line]:
    """The whole text at that width."""
    out: list[Line] = []
    for block in _blocks(text):
        out += [*_block(block, width), fit([], width)]
    return out


def _blocks(text: str) -> Iterator[list[str]]:
    """Runs of lines without a blank one between; a fence keeps its blank lines."""
    block: list[str] = []
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        if line.strip() or fenced:
            block.append(line)
        elif block:
            yield block
            block = []
    if block:
        yield block


def _block(block: list[str], width: int) -> list[Line]:
    first = block[0]
    if first.startswith("#"):
        return [fit([Span(f" {clean(first.lstrip('# '), 200)}", "title")], width)] + (
            _block(block[1:], width) if block[1:] else []
        )
    if first.startswith("```"):
        return _code(block[1 : -1 if block[-1].startswith("```") else None], width)
    if first.startswith("    "):
        return _code([line[4:] for line in block], width)
    if first.startswith("|"):
        return _table(block, width)
    if _ITEM.match(first):
        return [line for item in _items(block) for line in _item(item, width)]
    return paragraph(" ".join(block), width, 3)


def _code(rows: Sequence[str], width: int) -> list[Line]:
    """Code, broken at the edge and never cut: it is there to be typed."""
    parts = [part for row in rows for part in code(clean(row, 1000), width - 7)]
    return [fit([Span("    │ ", "faint"), Span(part, "key")], width) for part in parts]


def _table(block: Sequence[str], width: int) -> list[Line]:
    """Each row as a line of its short cells, and under it the last one, which explains."""
    out = []
    for row in block:
        cells = [cell.strip() for cell in row.strip().strip("|").split("|")]
        if row is block[0] or set(row) <= set("|-: "):
            continue
        lead = [Span("   ")]
        for cell in cells[:-1]:
            lead += [*_styled(cell), Span("  ")]
        out += [fit(lead, width), *paragraph(cells[-1], width, 5, "dim")]
    return out


def _items(block: Sequence[str]) -> Iterator[str]:
    item = ""
    for line in block:
        if _ITEM.match(line):
            if item:
                yield item
            item = line
        else:
            item = f"{item} {line.strip()}"
    yield item


def _item(text: str, width: int) -> list[Line]:
    mark = _ITEM.match(text)
    body = text[mark.end() :] if mark else text
    made = paragraph(body, width, 5)
    sign = "∙" if mark is None or mark[0][0] in "-*" else mark[0].strip()
    return [fit([Span(f"{sign:>4} "), *_shifted(made[0], 5)], width), *made[1:]]


def _shifted(line: Line, cells: int) -> list[Span]:
    """The line without its first cells, which are blank."""
    return [Span(line[0].text[cells:], line[0].style), *line[1:]]


def paragraph(text: str, width: int, indent: int, style: str = "") -> list[Line]:
    """A text with its inline marks turned into styles, wrapped."""
    room = max(8, width - indent - 1)
    out: list[Line] = []
    row: list[Span] = []
    used = 0
    for word in _words(text, style):
        long = sum(cell_len(span.text) for span in word)
        if row and used + 1 + long > room:
            out.append(fit([Span(" " * indent), *row], width))
            row, used = [], 0
        row += [Span(" ", style), *word] if row else word
        used += long + (1 if used else 0)
    return [*out, fit([Span(" " * indent), *row], width)]


def _words(text: str, style: str) -> Iterator[list[Span]]:
    """Words, each of one or more spans: a comma belongs to the code before it."""
    word: list[Span] = []
    for text_, look in _styled(clean(text, 4000), style):
        for index, part in enumerate(re.split(r"\s+", text_)):
            if index and word:
                yield word
                word = []
            if part:
                word.append(Span(part, look))
    if word:
        yield word


def _styled(text: str, style: str = "") -> list[Span]:
    out, at = [], 0
    for match in _INLINE.finditer(text):
        out.append(Span(text[at : match.start()], style))
        code, bold, emphasis, link = match.groups()
        out.append(Span(code or bold or emphasis or link, "key" if code or link else "bold" if bold else style))
        at = match.end()
    return [span for span in (*out, Span(text[at:], style)) if span.text]
