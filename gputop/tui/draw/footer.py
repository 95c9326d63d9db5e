"""The last line: the keys that matter here."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from gputop.tui.lines import Line, Span, fit

OVERVIEW = (
    ("?", "help"), ("q", "quit"), ("w", "why"), ("space", "pause"), ("tab", "next run"), ("g", "gpus"),
    ("p", "processes"), ("r", "runs"), ("y", "copy"), ("s", "snapshot"), ("i", "sources"),
)  # fmt: skip
PAGE = (("esc", "back"), ("q", "quit"), ("↑↓", "scroll"), ("space", "pause"), ("tab", "next run"), ("?", "help"))


def line(keys: Sequence[tuple[str, str]], width: int, note: str = "") -> Line:
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
