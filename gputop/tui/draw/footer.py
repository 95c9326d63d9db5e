"""The last line: the keys that matter here."""

from __future__ import annotations

from collections.abc import Mapping

from rich.cells import cell_len

from gputop.tui.draw.transport import badge
from gputop.tui.lines import Line, Span, fit
from gputop.tui.sheet import Sheet
from gputop.view import View

NONE: Mapping[str, str] = {}

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
    ("?", "help"), ("q", "quit"), ("w", "why"), ("space", "pause"), ("← →", "back in time"), ("tab", "next run"),
    ("R", "record"), *_PAGES,
)  # fmt: skip

PAST = (
    ("?", "help"), ("q", "quit"), ("End", "back to now"), ("space", "pause"), ("← →", "scrub"), ("[ ]", "changes"),
    (", .", "steps"), (":", "go to"), ("w", "why"), ("tab", "next run"), *_PAGES,
)  # fmt: skip

REPLAY = (
    ("?", "help"), ("q", "quit"), ("space", "pause"), ("← →", "scrub"), ("[ ]", "changes"), (", .", "steps"),
    (":", "go to"), ("+ -", "speed"), ("w", "why"), ("S", "skip idle"), ("tab", "next run"), *_PAGES,
)  # fmt: skip

PAGE = (("esc", "back"), ("q", "quit"), ("?", "help"), ("↑↓", "scroll"), ("space", "pause"), ("← →", "in time"),
        ("tab", "next run"))  # fmt: skip

LIST = (("/", "filter"), ("< >", "sort"), ("I", "reverse"))


def overview(view: View, *, borrowed: bool = False) -> Keys:
    """The keys of the overview, for the present, its past, or a recording; `borrowed`: one that Esc leads back from."""
    keys = {"": LIVE, "PAST": PAST, "REPLAY": REPLAY}[badge(view)]
    return _of_now((("esc", "back"), *keys) if borrowed else keys, view)


def page(view: View, sheet: Sheet) -> Keys:
    """The keys of a page; those that do something on this one first."""
    back, leave, helps, scroll, *rest = PAGE
    opens = (("enter", OPENS.get((sheet.opens.kind, sheet.opens.what), "open")),) if sheet.opens is not None else ()
    scroll = ("↑↓", "choose") if sheet.rows else scroll
    return _of_now((back, leave, helps, *opens, scroll, *(LIST if sheet.titles else ()), *rest), view)


OPENS = {("page", "causes"): "all causes", ("page", "cause"): "read about it"}
"""What Enter does, where there is more to say than "open"."""


def _of_now(keys: Keys, view: View) -> Keys:
    """The same keys, with what space does now, and the next run where there is one."""
    stands, alone = view.cursor is not None and not view.cursor.playing, len(view.runs) < 2
    return tuple((key, "play" if key == "space" and stands else does) for key, does in keys
                 if not (key == "tab" and alone))  # fmt: skip


IDS: dict[str, tuple[str, ...]] = {
    "?": ("help",), "q": ("quit",), "w": ("why",), "space": ("pause",), "← →": ("back_in_time", "on_in_time"),
    "tab": ("next_run",), "R": ("record",), "z": ("zoom",), "g": ("gpus",), "p": ("processes",), "r": ("runs",),
    "y": ("copy",), "s": ("snapshot",), "c": ("causes",), "i": ("info",), "a": ("ranks",),
    "o": ("recordings",), "End": ("end_in_time",),
    "[ ]": ("last_change", "next_change"), ", .": ("step_back", "step_on"), ":": ("go_to",),
    "+ -": ("faster", "slower"), "S": ("skip_idle",), "esc": ("back",), "enter": ("open",),
    "↑↓": ("scroll_up", "scroll_down"), "/": ("filter",), "< >": ("sort_previous", "sort_next"), "I": ("reverse",),
}  # fmt: skip
"""The bindings behind each key that is named here."""


def named(key: str, remapped: Mapping[str, str]) -> str:
    """A key as the person has it: its own name, or what the configuration file made of it."""
    if not any(name in remapped for name in IDS.get(key, ())):
        return key
    names = IDS[key]
    parts = key.split() if " " in key else list(key) if len(names) > 1 else [key]
    from gputop.tui.keys import shown

    return " ".join(shown(remapped[name].split(",")[0]) if name in remapped else part
                    for name, part in zip(names, parts, strict=True))  # fmt: skip


def line(keys: Keys, width: int, note: str = "", remapped: Mapping[str, str] = NONE) -> Line:
    """As many keys as fit whole, the most needed first; a note (what just happened) goes before them."""
    spans = [Span(" ")]
    room, between = width - 2, False
    if note:
        spans.append(Span(f"{note}   ", "bold"))
        room -= cell_len(note) + 3
    for key, does in ((named(key, remapped), does) for key, does in keys):
        need = cell_len(key) + len(does) + 3
        if need - 2 > room:
            break
        spans += [Span("  " if between else ""), Span(key, "key"), Span(f" {does}", "dim")]
        room, between = room - need, True
    return fit(spans, width)
