"""Where on the time axis the picture stands: in a word for the header, and as a player's line above the keys."""

from __future__ import annotations

import time
from itertools import groupby
from typing import Literal

from msgspec import structs
from rich.cells import cell_len

from gputop.tui import figures
from gputop.tui.glyphs import MARKS, RIBBON, family_of
from gputop.tui.goto import S, clock_of, span
from gputop.tui.lines import Block, Line, Span, fit, pieces, right
from gputop.view import Cursor, View

Mode = Literal["live", "paused", "behind", "playing", "held", "end", "following"]

NAMES = ("position", "map", "tempo")
"""Its panes: figures that move with every look at the left, the map, what seldom changes at the right."""

HERE = "┃"
"""The cursor on the map."""

UNJUDGED = "─"
"""A stretch of the map under no verdict: nothing trained."""

TWO_LINES_FROM = 22
"""Lines that a screen must have for the marks to get a line of their own above the map."""

MIN_MAP = 8
"""A map of fewer cells would tell nothing."""


def mode_of(view: View) -> Mode:
    """Where a picture stands. A live source: "live", or looked back at "paused" or playing "behind"; a recording:
    "playing", "held", at its "end", or "following" what is still written."""
    cursor = view.cursor
    if cursor is None:
        return "live"
    if cursor.replay:
        if cursor.live:
            return "following"
        return "end" if cursor.at_end else "playing" if cursor.playing else "held"
    if cursor.live:
        return "live"
    return "behind" if cursor.playing else "paused"


def mark_of(mode: Mode) -> Span:
    """The sign of a mode, two cells."""
    return Span(f"{_SIGNS[mode]} ", "good" if mode in ("live", "following") else "tone.warn")


_SIGNS: dict[Mode, str] = {
    "live": "●", "following": "●", "paused": "‖", "held": "‖", "behind": "►", "playing": "►", "end": "■",
}  # fmt: skip


def words(cursor: Cursor, mode: Mode, width: int) -> str:
    """A mode in words that fit."""
    if mode in ("paused", "behind"):
        word = "paused" if mode == "paused" else "past"
        behind = f"{figures.held(cursor.to_ns - cursor.at_ns)} behind"
        texts = [word] if behind.startswith("0 s") else [f"{word} · {behind}", behind]
        return next((text for text in texts if cell_len(text) <= width), texts[-1])
    return {"playing": f"x{cursor.speed:g}", "held": "paused", "end": "end", "following": "newest"}.get(mode, "")


def badge(view: View) -> str:
    """The word that keeps a picture from being taken for the present; "" when it is the present."""
    if view.cursor is None or mode_of(view) == "live":
        return ""
    return "REPLAY" if view.cursor.replay else "PAST"


def height_of(view: View, width: int, height: int) -> int:
    """Lines that the transport takes: none for a live picture, one or two else."""
    if not badge(view) or width < 24 or height < 7:
        return 0
    return 2 if height >= TWO_LINES_FROM else 1


def steady(cursor: Cursor) -> Cursor:
    """A cursor whose span, where it grows all the time, grows in steps of a 16th to a 32nd: a calmer map."""
    long = cursor.to_ns - cursor.from_ns
    if cursor.replay or long <= 0:
        return cursor
    step = 1 << max(0, long.bit_length() - 5)
    return structs.replace(cursor, to_ns=cursor.from_ns + -(-long // step) * step)


def blocks(view: View, y: int, width: int, rows: int) -> dict[str, Block]:
    """The transport in `rows` (1 or 2) lines from `y` on."""
    cursor = view.cursor
    if cursor is None or rows <= 0:
        return {}
    axis, end = steady(cursor), cursor.to_ns
    left = min(width, max(cell_len(position(cursor)) + 5, 24 if cursor.replay and width >= 100 else 0))
    tempo = 13 if width >= 72 else 7
    cells = width - left - tempo
    if cells < MIN_MAP:
        return {"position": Block(0, y, width, rows, _padded([_where(view, width)], width, rows))}
    parts = {
        "position": (0, left, [fit([Span(f"   {_date(cursor, left - 4)}", "dim")], left), _where(view, left)]),
        "map": (left, cells, [_marks(axis, cells), _map(axis, end, cells)]),
        "tempo": (left + cells, tempo, [_skips(cursor, tempo), _tempo(cursor, tempo)]),
    }
    return {name: Block(x, y, wide, rows, _padded(lines, wide, rows)) for name, (x, wide, lines) in parts.items()}


def _padded(lines: list[Line], width: int, rows: int) -> tuple[Line, ...]:
    """The last `rows` lines; the transport itself is the lowest."""
    return tuple([fit([], width)] * (rows - len(lines)) + lines[-rows:])


CALM_S = 30
"""A length that grows all the time is told in steps of this; a short one in steps of 5 s."""


def position(cursor: Cursor) -> str:
    """Where the cursor is in what there is, of a width that stays: "0:14:32 / 1:12:03"."""
    at, long = (cursor.at_ns - cursor.from_ns) // S, (cursor.to_ns - cursor.from_ns) // S
    if not cursor.replay:
        long = max(at, long - long % (CALM_S if long >= 4 * CALM_S else 5))
    return f"{span(at).rjust(len(span(long)))} / {span(long)}"


def _where(view: View, width: int) -> Line:
    cursor = view.cursor
    assert cursor is not None
    at, _, long = position(cursor).partition(" / ")
    return fit([Span(" "), mark_of(mode_of(view)), Span(at, "bold"), Span(f" / {long}", "dim")], width)


def _date(cursor: Cursor, room: int) -> str:
    """When that was; of a recording with its date, which may be long ago."""
    for form in ("%Y-%m-%d %H:%M:%S", "%d %b %H:%M:%S") if cursor.replay else ():
        try:
            then = time.strftime(form, time.localtime(cursor.at_ns // S))
        except (OverflowError, ValueError, OSError):
            break
        if len(then) <= room:
            return then
    return clock_of(cursor.at_ns)


def _tempo(cursor: Cursor, width: int) -> Line:
    if cursor.replay:
        return right([Span(f"x{cursor.speed:g} ", "bold")], width)
    return right([Span("End", "key"), Span(" now ", "dim")] if width >= 9 else [Span("End ", "key")], width)


def _skips(cursor: Cursor, width: int) -> Line:
    if not cursor.skip_idle:
        return fit([], width)
    return right([Span("skips idle " if width > 11 else "skips ", "dim")], width)


def cell_of(t_ns: int, cursor: Cursor, cells: int) -> int:
    """The cell of the map that a moment lies in."""
    long = cursor.to_ns - cursor.from_ns
    return 0 if long <= 0 else max(0, min(cells - 1, (t_ns - cursor.from_ns) * cells // long))


def moment(cell: int, cursor: Cursor, cells: int) -> int:
    """The moment in the middle of a cell of the map."""
    return cursor.from_ns + (cursor.to_ns - cursor.from_ns) * (2 * cell + 1) // (2 * max(1, cells))


def causes(cursor: Cursor, cells: int) -> list[str | None]:
    """The verdict that held longest in each cell of the map."""
    long = cursor.to_ns - cursor.from_ns
    shares: list[dict[str, int]] = [{} for _ in range(cells)]
    for segment in cursor.causes if long > 0 else ():
        begin, end = max(segment.from_ns, cursor.from_ns), min(segment.to_ns, cursor.to_ns)
        if end < begin:
            continue
        for cell in range(cell_of(begin, cursor, cells), cell_of(end, cursor, cells) + 1):
            first = cursor.from_ns + long * cell // cells
            within = min(end, cursor.from_ns + long * (cell + 1) // cells) - max(begin, first)
            if within > 0:
                shares[cell][segment.cause] = shares[cell].get(segment.cause, 0) + within
    return [max(share, key=lambda cause: share[cause]) if share else None for share in shares]


def _map(cursor: Cursor, end_ns: int, cells: int) -> Line:
    """The map; beyond `end_ns`, where nothing can have happened yet, it is blank."""
    last = cell_of(end_ns, cursor, cells)
    here = cell_of(cursor.at_ns, cursor, cells)
    looks = []
    for cell, cause in enumerate(causes(cursor, cells)):
        if cell == here:
            looks.append(Span(HERE, "selected"))
        elif cause is None:
            looks.append(Span(UNJUDGED, "faint") if cell <= last else Span(" "))
        else:
            looks.append(Span(RIBBON[family_of(cause)], f"family.{family_of(cause)}"))
    return fit([Span(look.text * len(list(same)), look.style) for look, same in groupby(looks)], cells)


def _marks(cursor: Cursor, cells: int) -> Line:
    """A letter for each event of the span; where two kinds meet, "+"."""
    out = [" "] * cells
    for t_ns, kind in cursor.marks:
        letter = MARKS.get(kind)
        if letter and cursor.from_ns <= t_ns <= cursor.to_ns:
            cell = cell_of(t_ns, cursor, cells)
            out[cell] = letter if out[cell] in (" ", letter) else "+"
    return fit([Span("".join(out), "warn")], cells)


def summary(cursor: Cursor) -> str:
    """What can be gone to, in words, for the page of sources."""
    what = "a recording" if cursor.replay else "what was collected so far"
    long = span((cursor.to_ns - cursor.from_ns) / 1e9)
    return pieces(
        [f"{what}, {long} long", f"from {clock_of(cursor.from_ns)} to {clock_of(cursor.to_ns)}",
         "idle stretches are skipped" if cursor.skip_idle else ""],
        200,
        ", ",
    )  # fmt: skip
