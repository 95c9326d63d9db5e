"""The recordings in the current folder and in gputop's own; Enter plays one, Esc leads back."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gputop.records import clean
from gputop.tui import figures, listing
from gputop.tui.draw.sight import Sight
from gputop.tui.kept import Kept
from gputop.tui.lines import Line, Span, fit, wrap
from gputop.tui.sheet import Deed, Sheet, Standing
from gputop.tui.tables import Column

COLUMNS = (
    Column("recording", 29, number=False), Column("began", 16, number=False, rank=1), Column("long", 12, rank=0),
    Column("what trained", 20, number=False, rank=2), Column("size", 7, rank=3), Column("steps", 10, rank=4),
    Column("", 13, number=False, rank=1), Column("host", 16, number=False, rank=5),
    Column("folder", 40, number=False, rank=6),
)  # fmt: skip


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """One row a recording, the newest first; why one can't be read stands under it."""
    nothing = "no recording here yet: R records what is watched, gputop record FILE does it without a screen"
    if sight.shelf is None:
        nothing = "looking for recordings"
    title = [Span(" recordings", "title"), Span("  Enter plays one, Esc leads back", "dim")]
    return listing.draw(
        [_entry(kept, width) for kept in sight.shelf or ()], width, at, titles=listing.titles_of(COLUMNS),
        columns=COLUMNS, above=[fit(title, width), fit([], width)], pick=True, nothing=nothing,
    )  # fmt: skip


def _entry(kept: Kept, width: int) -> listing.Entry:
    fault = wrap(clean(kept.fault, 300), width - 6, 3)
    path = Path(kept.path)
    trained = clean(", ".join(kept.scripts), 200)
    state = kept.state or ("simulated" if kept.simulated else "")
    cells = [
        Span(clean(path.name, 200), "bold" if not kept.fault else "dim"),
        Span(_when(kept)),
        Span(figures.UNKNOWN if kept.long_ns is None else figures.seconds(kept.long_ns / 1e9)),
        Span(trained),
        Span(figures.file_size(kept.size), "dim"),
        Span(figures.UNKNOWN if kept.steps is None else figures.count(kept.steps), "dim"),
        Span("not readable" if kept.fault else state, "bad" if kept.fault else "warn"),
        Span(clean(", ".join(kept.hosts), 100), "dim"),
        Span(clean(_folder(path), 300), "dim"),
    ]
    return listing.Entry(
        key=kept.path,
        values=(path.name, kept.from_ns, kept.long_ns, trained or None, kept.size, kept.steps, cells[6].text or None,
                cells[7].text or None, cells[8].text),
        words=listing.words_of(lambda: cells),
        high=1 + len(fault),
        draw=_drawn(cells, fault),
        opens=None if kept.fault or kept.state == "empty" else Deed("replay", kept.path),
    )  # fmt: skip


def _drawn(cells: list[Span], fault: list[str]) -> Callable[[int, str], list[Line]]:
    """The row, and under it what is wrong with the file."""
    one = listing.table(COLUMNS, lambda: cells)
    if not fault:
        return one
    return lambda width, mark: [*one(width, mark), *(fit([Span("     "), Span(part, "bad")], width) for part in fault)]


def _when(kept: Kept) -> str:
    seconds = kept.changed_s if kept.from_ns is None else kept.from_ns / 1e9
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return figures.UNKNOWN


def _folder(path: Path) -> str:
    home, text = str(Path("~").expanduser()), str(path.parent)
    return "~" + text[len(home) :] if text == home or text.startswith(home + "/") else text
