"""The page about one cause: what it looks like, by which thresholds it is found, what fools it, what to do."""

from __future__ import annotations

import re

from gputop.records import clean
from gputop.tui import book, markdown
from gputop.tui.draw.sight import Sight, calm_of, chosen
from gputop.tui.sheet import Deed, Sheet, Standing

_LOOK_ALIKES = re.compile(r"\]\(([a-z0-9-]+)\.md\)")


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """The page of `at.about`, else of the verdict shown; Enter leads to all causes, first those it may be taken for."""
    run = chosen(calm_of(sight), sight.run_id)
    cause = at.about or (run.verdict.cause if run is not None else "idle")
    text = book.text_of(cause)
    if text is None:
        text = f"# {clean(cause, 40)}\n\nThis version has no page about it."
    return Sheet(markdown.lines(in_order(text), width), opens=Deed("page", "causes", cause))


LAST = ("Look-alikes", "What fools it", "Thresholds")
"""Sections for those who doubt or tune: after what helps, in a terminal where a page is many screens long."""


def in_order(text: str) -> str:
    """The page with its LAST sections at the end."""
    head, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    rank = {f"## {title}": index for index, title in enumerate(LAST, 1)}
    sections.sort(key=lambda section: rank.get(section.partition("\n")[0].strip(), 0))
    return "\n".join((head, *sections))


def look_alikes(cause: str) -> list[str]:
    """The causes that its page refers to, in order."""
    return list(dict.fromkeys(_LOOK_ALIKES.findall(book.text_of(cause) or "")))
