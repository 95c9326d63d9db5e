"""The last line: the keys that matter here."""

from __future__ import annotations

from rich.cells import cell_len

from gputop.tui.draw.transport import badge
from gputop.tui.lines import Line, Span, fit
from gputop.tui.sheet import Sheet
from gputop.view import View

Keys = tuple[tuple[str, str], ...]
"""Keys, and what each does in a word."""

_PAGES = (
    ("g", "gpus"),
    ("p", "processes"),
    ("r", "runs"),
    ("y", "copy"),
    ("s", "snapshot"),
    ("c", "causes"),
    ("i", "sources"),
)

LIVE = (
    ("?", "help"), ("q", "quit"), ("w", "why"), ("space", "pause"), ("←→", "back in time"), ("tab", "next run"),
    ("R", "record"), *_PAGES,
)  # fmt: skip

PAST = (
    ("?", "help"), ("q", "quit"), ("End", "back to now"), ("space", "pause"), ("←→", "scrub"), ("[ ]", "changes"),
    (", .", "steps"), (":", "go to"), ("w", "why"), ("tab", "next run"), *_PAGES,
)  # fmt: skip

REPLAY = (
    ("?", "help"), ("q", "quit"), ("space", "pause"), ("←→", "scrub"), ("[ ]", "changes"), (", .", "steps"),
    (":", "go to"), ("+ -", "speed"), ("w", "why"), ("S", "skip idle"), ("tab", "next run"), *_PAGES,
)  # fmt: skip

PAGE = (("esc", "back"), ("q", "quit"), ("↑↓", "scroll"), ("space", "pause"), ("←→", "in time"), ("tab", "next run"),
        ("?", "help"))  # fmt: skip

LIST = (("/", "filter"), ("< >", "sort"), ("I", "reverse"))


def overview(view: View) -> Keys:
    """The keys of the overview, for the present, its past, or a recording."""
    return _of_now({"": LIVE, "PAST": PAST, "REPLAY": REPLAY}[badge(view)], view)


def page(view: View, sheet: Sheet) -> Keys:
    """The keys of a page; those that do something on this one first."""
    back, leave, scroll, *rest = PAGE
    opens = (("enter", OPENS.get((sheet.opens.kind, sheet.opens.what), "open")),) if sheet.opens is not None else ()
    scroll = ("↑↓", "choose") if sheet.rows else scroll
    return _of_now((back, leave, *opens, scroll, *(LIST if sheet.titles else ()), *rest), view)


OPENS = {("page", "causes"): "all causes", ("page", "cause"): "read about it"}
"""What Enter does, where there is more to say than "open"."""


def _of_now(keys: Keys, view: View) -> Keys:
    """The same keys, with what space does now."""
    stands = view.cursor is not None and not view.cursor.playing
    return tuple((key, "play" if key == "space" and stands else does) for key, does in keys)


def line(keys: Keys, width: int, note: str = "") -> Line:
    """As many keys as fit whole, the most needed first; a note (what just happened) goes before them."""
    spans = [Span(" ")]
    room = width - 2
    if note:
        spans.append(Span(f"{note}   ", "bold"))
        room -= cell_len(note) + 3
    for key, does in keys:
        need = cell_len(key) + len(does) + 3
        if need - 2 > room:
            break
        spans += [Span(key, "key"), Span(f" {does}  ", "dim")]
        room -= need
    return fit(spans, width)
