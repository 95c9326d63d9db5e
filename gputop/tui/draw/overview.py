"""The overview: which block stands where at a given size, and what is in it."""

from __future__ import annotations

from itertools import pairwise

import msgspec
from msgspec import structs
from rich.cells import cell_len

from gputop.records import clean
from gputop.tui import figures
from gputop.tui.asking import Question
from gputop.tui.draw import extras, footer, gpugrid, header, ledger, recorded, ribbon, runstrip, transport, verdict
from gputop.tui.draw.rows import MOST_STRIPS, Row, all_rows
from gputop.tui.draw.series import axis_labels, graph, on_axis
from gputop.tui.draw.sight import Sight, calm_of, chosen, own_gpu
from gputop.tui.lines import Block, Line, Span, crop, cut, fit, pieces

LABEL = 15
"""Cells of the label and figure of a row."""

NAME = 7
"""Cells of the label alone: it stands still in a pane of its own, so that a new figure costs only its own bytes."""

SMALLEST_WIDE = 60
"""Below this width, or `SMALLEST_HIGH` lines, only the verdict and the ledger are shown."""

SMALLEST_HIGH = 12

NAMES = (
    "identity", "pace", "rec", "state", "strip", "verdict", "ledger", "grid", "labels", "figures", "history", "detail",
    "evidence", "phases", "processes", *transport.NAMES, "footer",
)  # fmt: skip
"""Every block there can be."""


class Placed(msgspec.Struct, frozen=True):
    """A row and the lines it was given."""

    row: Row
    lines: int


def compose(
    sight: Sight, width: int, height: int, note: str = "", question: Question | None = None
) -> dict[str, Block]:
    """The blocks by name; they never overlap and never leave the screen. A `question` has the last line."""
    if width <= 0 or height <= 0:
        return {}
    if width < SMALLEST_WIDE or height < SMALLEST_HIGH:
        asked = question is not None and height > 1
        blocks = _small(sight, width, height - asked)
    else:
        blocks = _full(sight, width, height, note)
    if question is not None:
        blocks["footer"] = _one(0, height - 1, width, question.line(width))
        if height == 1:
            del blocks["verdict"]
    return blocks


def _small(sight: Sight, width: int, height: int) -> dict[str, Block]:
    run = chosen(calm_of(sight), sight.run_id)
    past = transport.badge(sight.view)
    blocks: dict[str, Block] = {}
    y = 0
    headed = height >= 6 or (height >= 4 and bool(past))
    if headed:
        blocks |= _small_head(sight, width)
        y = 1
    moved = transport.height_of(sight.view, width, height) and 1
    blocks |= transport.blocks(sight.view, height - 1, width, moved)
    bottom = height - moved
    ledger_rows = 2 if bottom - y >= 5 else 1 if bottom - y >= 3 else 0
    if run is None:
        ledger_rows = 0
    high = min(bottom - y - ledger_rows, 6)
    tag = "" if headed or width < 16 else past
    blocks["verdict"] = Block(0, y, width, high, tuple(verdict.block(sight, width, high, tag)))
    y += high
    if ledger_rows:
        label = LABEL if width >= 40 else 1
        rows = ledger.lines(run, width, label, ledger_rows)
        blocks["ledger"] = Block(0, y, width, ledger_rows, tuple(rows))
    return blocks


def _small_head(sight: Sight, width: int) -> dict[str, Block]:
    """The identity alone, as much as fits; beside it that the picture is of the past, or is recorded."""
    if transport.badge(sight.view):
        state = 18 if width >= 30 else width
        line = header.state(sight, state)
    else:
        state = recorded.NARROW if sight.view.recording is not None and width >= 2 * recorded.NARROW else 0
        line = recorded.indicator(sight.view, state)
    blocks = {}
    if state < width:
        blocks["identity"] = _one(0, 0, width - state, header.identity(sight, width - state))
    if state:
        blocks["state"] = _one(width - state, 0, state, line)
    return blocks


def _full(sight: Sight, width: int, height: int, note: str) -> dict[str, Block]:
    view, run = calm_of(sight), chosen(calm_of(sight), sight.run_id)
    blocks = _head(sight, width)
    y = 1
    if len(view.runs) > 1:
        blocks["strip"] = _one(0, y, width, runstrip.strip(sight, width))
        y += 1
    moved = transport.height_of(sight.view, width, height)
    airy = height - moved >= 22
    y += airy
    usual = width < 100 and height < 30 and airy  # 80x24: a third line for the sentence, else the blank one
    high = 3 if height < 16 else 4 if width >= 100 or not airy else 5
    spoken = verdict.block(sight, width, high)
    blocks["verdict"] = Block(0, y, width, high, tuple(spoken))
    y += high + (airy and (not usual or run is None))
    if run is not None:
        blocks["ledger"] = Block(0, y, width, 2, tuple(ledger.lines(run, width, LABEL, 2)))
        y += 2 + airy
    bottom = height - 1 - moved
    blocks |= transport.blocks(sight.view, bottom, width, moved)
    if len(view.gpus) > MOST_STRIPS:
        y = _grid(blocks, sight, width, y, bottom) + airy
    below = _extras(sight, width)
    wanted = max((len(lines) + 1 for _, _, lines in below.values()), default=0)
    y = _rows(blocks, sight, width, y, bottom, wanted)
    y = _below(blocks, below, y + 1, bottom)
    _processes(blocks, sight, width, y + 1, bottom)
    blocks["footer"] = _one(
        0, height - 1, width, last_line(sight, footer.overview(sight.view, borrowed=sight.borrowed), width, note)
    )
    return blocks


def _one(x: int, y: int, width: int, line: Line) -> Block:
    return Block(x, y, width, 1, (line,))


def last_line(sight: Sight, keys: footer.Keys, width: int, note: str) -> Line:
    """The keys; before them what just happened, else what ails the recording, else the first warning."""
    trouble = recorded.trouble(sight.view.recording)
    said = note or crop(trouble, max(10, width - 12)) or warning(sight, width)
    return footer.line(keys, width, said, sight.remapped)


def _head(sight: Sight, width: int) -> dict[str, Block]:
    state = 24 if width >= 100 else 18
    rec = recorded.width_of(sight.view, width)
    pace = 46 if width >= 116 + rec else 36 if width >= 116 else 20 if width >= 72 else 0
    if chosen(sight.view, sight.run_id) is None:
        pace = 0
    left = width - state - pace - rec
    blocks = {
        "identity": _one(0, 0, left, fit(list(header.identity(sight, left - 2)), left)),
        "state": _one(width - state, 0, state, header.state(sight, state)),
    }
    if pace:
        blocks["pace"] = _one(left, 0, pace, header.pace(sight, pace))
    if rec:
        blocks["rec"] = _one(left + pace, 0, rec, recorded.indicator(sight.view, rec))
    return blocks


def warning(sight: Sight, width: int) -> str:
    """The first warning of the view that was not told long enough; else how many there are, and where."""
    warnings = calm_of(sight).warnings
    fresh = next((text for text in warnings if text not in sight.told), "")
    if fresh:
        return clean(fresh, max(10, width * 3 // 5))
    return f"{figures.counted(len(warnings), 'warning')}: i" if warnings else ""


def _grid(blocks: dict[str, Block], sight: Sight, width: int, y: int, bottom: int) -> int:
    rows = min(gpugrid.rows_needed(sight.view, width), max(1, (bottom - y) // 3))
    own = own_gpu(sight.view, chosen(sight.view, sight.run_id))
    lines = gpugrid.grid(sight.view, own.gpu.gpu_uuid if own else None, width, rows)
    blocks["grid"] = Block(0, y, width, len(lines), tuple(lines))
    return y + len(lines)


def columns(width: int) -> tuple[int, int]:
    """Cells of the histories and of the details beside them."""
    detail = 30 if width < 100 else 48 if width < 160 else 58
    detail = detail if width >= 72 else 0
    return width - LABEL - detail - 1, detail


def columns_in_sight(width: int) -> int:
    """Columns of history that a screen of that width shows."""
    return columns(width)[0] if width >= SMALLEST_WIDE else max(1, width)


def _rows(blocks: dict[str, Block], sight: Sight, width: int, y: int, bottom: int, below: int) -> int:
    cells, detail = columns(width)
    placed = arrange(all_rows(sight, cells, detail - 3), bottom - y, below, tallest(width))
    high = sum(item.lines for item in placed)
    if high <= 0:
        return y
    labels, figures, history, details, about = [], [], [], [], []
    for row, lines in ((item.row, item.lines) for item in placed):
        about += [row.label.partition(" ")[0] if row.kind in ("series", "note") else row.kind] * lines
        labels += [fit([Span(f" {row.label}", "dim")], NAME), *[fit([], NAME)] * (lines - 1)]
        figures.append(fit([Span(row.number.rjust(LABEL - NAME - 1), row.number_style or "bold")], LABEL - NAME))
        figures += [fit([], LABEL - NAME)] * (lines - 1)
        if row.kind == "note":
            left, right = cut(fit([Span(_note(row, cells + detail - 3), "dim")], cells + detail), cells, cells + detail)
            history.append(left)
            details.append(right)
            continue
        history += _history(row, sight, cells, lines)
        details.append(fit([Span("  "), Span(pieces(row.detail, detail - 3), row.detail_style)], detail))
        details += [fit([], detail)] * (lines - 1)
    keys = tuple(about)
    blocks["labels"] = Block(0, y, NAME, high, tuple(labels), keys)
    blocks["figures"] = Block(NAME, y, LABEL - NAME, high, tuple(figures), keys)
    blocks["history"] = Block(LABEL, y, cells, high, tuple(history), keys)
    if detail:
        blocks["detail"] = Block(LABEL + cells, y, detail, high, tuple(details), keys)
    return y + high


def _note(row: Row, room: int) -> str:
    """What a row says instead of a history; of a sentence too long what stands before its colon."""
    text = " ".join(row.detail)
    return crop(text if cell_len(text) <= room else text.partition(": ")[0], room)


def tallest(width: int) -> int:
    """Lines that one history takes at most. Each line costs its bytes at every move, so a usual terminal, often at the
    other end of an ssh connection, gets fewer than a large one."""
    return 5 if width >= 160 else 2


_GAP = Row(label="", kind="gap")


def arrange(rows: list[Row], room: int, below: int, most: int) -> list[Placed]:
    """The rows that fit in `room` lines, those of the lowest rank first.

    What then remains above the `below` lines wanted for something else goes to blank lines between groups, and what
    still remains to histories of up to `most` lines.
    """
    kept = [rows[i] for i in sorted(sorted(range(len(rows)), key=lambda i: (rows[i].rank, i))[: max(0, room)])]
    spare = room - len(kept) - below
    gaps = sum(a.group != b.group for a, b in pairwise(kept))
    spaced = gaps if spare >= gaps else 0
    spare -= spaced
    high = [1] * len(kept)
    growing = [index for index, row in enumerate(kept) if row.grows]
    for _ in range(most - 1):
        if growing and spare >= len(growing):
            spare -= len(growing)
            for index in growing:
                high[index] += 1
    out: list[Placed] = []
    for index, row in enumerate(kept):
        if spaced and index and kept[index - 1].group != row.group:
            out.append(Placed(_GAP, 1))
        out.append(Placed(row, high[index]))
    return out


def _history(row: Row, sight: Sight, cells: int, lines: int) -> list[Line]:
    view, run = sight.slow, chosen(sight.slow, sight.run_id)
    if row.kind == "gap":
        return [fit([], cells)]
    if row.kind == "events":
        return [fit([Span(ribbon.marks(run, view, cells), "warn")], cells)]
    if row.kind == "axis":
        return [fit([Span(axis_labels(view, cells), "faint")], cells)]
    if row.kind == "ribbon":
        return [ribbon.ribbon(run, view, cells) if run is not None else fit([], cells)]
    values = on_axis(row.history, view, cells)
    return [fit([Span(text, row.style)], cells) for text in graph(values, row.top, lines)]


def _extras(sight: Sight, width: int) -> dict[str, tuple[int, int, list[Line]]]:
    """What may stand below: name to left edge, width and lines."""
    run = chosen(calm_of(sight), sight.run_id)
    if run is None:
        return {}
    right = width // 2 if width >= 110 else 0
    left = width - right - 2 if right else width
    out = {"evidence": (0, left, extras.evidence(run, left))}
    right = right if out["evidence"][2] else width  # with nothing beside them they begin at the left
    if right:
        out["phases"] = (width - right, right, extras.phases(run, calm_of(sight), right))
    return {name: block for name, block in out.items() if block[2]}


def _below(blocks: dict[str, Block], below: dict[str, tuple[int, int, list[Line]]], y: int, bottom: int) -> int:
    """Places side by side what fits from `y` on (a heading alone does not); gives the line after it."""
    end = y
    for name, (x, across, lines) in below.items():
        shown = tuple(lines[: max(0, bottom - y)])
        if len(shown) >= MIN_EXTRA:
            blocks[name] = Block(x, y, across, len(shown), shown)
            end = max(end, y + len(shown))
    return end


MIN_EXTRA = 2


def _processes(blocks: dict[str, Block], sight: Sight, width: int, y: int, bottom: int) -> None:
    """The trainers and their workers, the chosen run's first, where a large screen has room for a few of them."""
    view, room = calm_of(sight), bottom - y - 1
    run = chosen(view, sight.run_id)
    if room < 5 or run is None:
        return
    from gputop.tui.pages import processes

    runs = (run, *(other for other in view.runs if other is not run))[:room]
    lines = processes.draw(structs.replace(sight, view=structs.replace(view, runs=runs)), width)
    shown = tuple(lines[:room])
    blocks["processes"] = Block(0, y, width, len(shown), shown)
