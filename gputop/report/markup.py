"""HTML from text that nobody vouches for: every outside text passes through `esc`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from gputop.records import clean
from gputop.report.paper import GLUE

LONG = 4000
"""Characters of an outside text that are shown."""


def esc(text: object) -> str:
    """Text made inert in element content and in quoted attributes, control and direction characters made visible."""
    return html.escape(clean(str(text), LONG).replace(GLUE, " "), quote=True)


def tag(name: str, content: str, css: str = "") -> str:
    """An element around markup."""
    return f'<{name} class="{css}">{content}</{name}>' if css else f"<{name}>{content}</{name}>"


def items(texts: Iterable[str], css: str = "") -> str:
    """Outside texts as a list; nothing for none."""
    inner = "".join(tag("li", esc(text)) for text in texts)
    return tag("ul", inner, css) if inner else ""


def grid(
    rows: Sequence[Sequence[str]],
    numbers: Iterable[int],
    caption: str = "",
    *,
    odd: Iterable[int] = (),
    raw: int = -1,
    optional: Iterable[int] = (),
) -> str:
    """Rows of outside text as a table; the first is its head, the first cell of each its name.

    `numbers` are the columns that hold figures, `odd` the rows that stand out, `raw` a column that is markup already,
    `optional` the columns that a phone leaves out.
    """
    classes = dict.fromkeys(numbers, "n")
    for column in optional:
        classes[column] = f"{classes.get(column, '')} opt".strip()

    def cell(kind: str, column: int, text: str, scope: str = "") -> str:
        css = f' class="{classes[column]}"' if column in classes else ""
        return f"<{kind}{scope}{css}>{text if column == raw else esc(text)}</{kind}>"

    marked = set(odd)
    head = "".join(cell("th", column, text, ' scope="col"') for column, text in enumerate(rows[0]))
    body = []
    for number, row in enumerate(rows[1:]):
        cells = [cell("th", 0, row[0], ' scope="row"')]
        cells += [cell("td", column + 1, text) for column, text in enumerate(row[1:])]
        body.append(tag("tr", "".join(cells), "odd" if number in marked else ""))
    title = tag("caption", esc(caption)) if caption else ""
    table = f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
    return tag("div", table, "scroll")
