"""One panel over the whole screen: a history with its scale and its clock, the ledger, or the verdicts one by one.

The time axis stands still here: a new column is added at its right end, and only when that is full does the picture
move on by a sixth. A tall history that moved with every column would cost its whole area each time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import isfinite
from statistics import median

import msgspec

from gputop.records import clean
from gputop.tui import figures
from gputop.tui.draw import extras, ledger, ribbon, rows, verdict
from gputop.tui.draw.series import axis_labels, graph, nice_top, on_axis
from gputop.tui.draw.sight import Sight, calm_of, chosen, own_gpu
from gputop.tui.glyphs import RIBBON, family_of
from gputop.tui.lines import Line, Span, fit, pieces
from gputop.tui.sheet import Sheet, Standing
from gputop.view import RunView, Segment, View

GUTTER = 9
"""Cells of the scale at the left."""

LEAST_WIDE = 30
"""Below this many cells there is no room for a scale."""


class Panel(msgspec.Struct, frozen=True):
    """A panel: its key, its title, and its lines in a room of width by height."""

    key: str
    title: str
    draw: Callable[[int, int], list[Line]]


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """The chosen panel; the arrows choose another."""
    every = panels(sight)
    if not every:
        return Sheet([fit([], width), *verdict.waiting(sight.view, width, 5)])
    index = next((i for i, panel in enumerate(every) if panel.key == at.key), 0)
    panel = every[index]
    names = [Span(f" {panel.title}", "title"), Span(f"   {index + 1} of {len(every)}", "dim")]
    lines = [fit(names, width), *panel.draw(width, max(1, height - 1))]
    aside = 0 if panel.key in ("ledger", "why") else 1 + step_of(width - gutter_of(width) - 1)
    return Sheet(lines[:height], rows=tuple((one.key, 0) for one in every), chosen=index, aside=aside)


def gutter_of(width: int) -> int:
    """Cells of the scale, where there is room for one."""
    return GUTTER if width >= LEAST_WIDE else 0


def step_of(cells: int) -> int:
    """Cells that the picture moves on by."""
    return max(1, cells // 6)


def panels(sight: Sight) -> list[Panel]:
    """Every panel there is to show, as on the overview from top to bottom."""
    run, slow_run = chosen(sight.view, sight.run_id), chosen(sight.slow, sight.run_id)
    out: list[Panel] = []
    if run is not None and slow_run is not None:
        out += [_series(row, sight) for row in rows.step_rows(run, slow_run, sight.slow, WHOLE)]
        if ledger.ordered(slow_run.ledger):
            out.append(Panel("ledger", "where a step goes", lambda width, height: _phases(sight, width, height)))
    if sight.view.gpus:
        out += [_series(row, sight) for row in gpu_rows(sight, run)]
    if sight.view.host is not None:
        out += [_series(row, sight) for row in rows.host_rows(sight.view, sight.slow, run, slow_run)]
    if slow_run is not None and slow_run.segments:
        out.append(Panel("why", "verdict over time", lambda width, height: _verdicts(sight, width, height)))
    return out


WHOLE = 300
"""Columns over which a scale is chosen that must hold on any screen."""


def gpu_rows(sight: Sight, run: RunView | None) -> list[rows.Row]:
    """The run's own GPU in full, then each other one."""
    own = own_gpu(sight.view, run)
    full = [] if own is None else rows.gpu_in_full(own, sight.slow, WHOLE)
    return full + [rows.util_row(gpu, rows.same(gpu, sight.slow), 4) for gpu in sight.view.gpus if gpu is not own]


TITLES = {
    "p50": "p50: median step of each column", "p95": "p95: longest step of each column",
    "peak": "peak: the driver's highest sample of each column", "mem": "mem: share of GPU memory in use",
    "CPU": "CPU: all cores together",
}  # fmt: skip


def _series(row: rows.Row, sight: Sight) -> Panel:
    label = row.label.strip()
    title = TITLES.get(label, f"{label}: mean utilization of each column")
    return Panel(label, title, lambda width, height: _history(row, sight, width, height))


def anchored(view: View, cells: int) -> int:
    """Cells left free at the right for the columns to come, so that the axis stands still until they are filled."""
    step = step_of(cells)
    finished = view.last_column + (0 if (view.last_column + 1) * view.column_ns > view.now_ns else 1)
    return (-finished) % step


def _history(row: rows.Row, sight: Sight, width: int, height: int) -> list[Line]:
    view = sight.slow
    gutter = gutter_of(width)
    cells = width - gutter - 1
    free = min(max(0, cells - 1), anchored(view, cells))
    values = on_axis(row.history, view, cells - free)
    below = 5 if height >= 9 else 0
    tall = max(1, height - 1 - below)
    percent = row.label.strip() not in ("p50", "p95")
    lines = [fit([Span(f" {row.number} ", row.number_style or "bold"), Span(pieces(row.detail, width - 12), "dim")],
                 width)]  # fmt: skip
    unit = figures.pct if percent else figures.ms
    scale = {0: unit(row.top), tall - 1: "0", tall // 2: unit(row.top * (tall - tall // 2) / tall)}
    for index, text in enumerate(graph(values, row.top, tall)):
        mark = scale.get(index, "") if index in (0, tall - 1) or tall >= 5 else ""
        lines.append(fit([Span(mark.rjust(gutter - 1)[: gutter - 1] + " " if gutter else "", "dim"),
                          Span(text, row.style)], width))  # fmt: skip
    return lines + (_under(sight, values, free, gutter, width, unit) if below else [])


def _under(
    sight: Sight,
    values: Sequence[float | None],
    free: int,
    gutter: int,
    width: int,
    unit: Callable[[float | None], str],
) -> list[Line]:
    """Marks, verdicts and the clock under a history, and its figures over what is in sight."""
    view, run = sight.slow, chosen(sight.slow, sight.run_id)
    shown, pad = len(values), Span(" " * gutter)
    known = sorted(value for value in values if value is not None and isfinite(value))
    told = (
        [f"least {unit(known[0])}", f"median {unit(median(known))}", f"most {unit(known[-1])}"]
        if known
        else ["nothing measured yet"]
    )
    seconds = shown * view.column_ns / 1e9
    told.append(f"of the last {figures.seconds(seconds)}, each cell {figures.number(view.column_ns / 1e9)} s")
    names = ribbon.legend(run, view, shown)
    return [
        fit([pad, Span(ribbon.marks(run, view, shown), "warn")], width),
        fit([pad, *(ribbon.ribbon(run, view, shown) if run is not None else ())], width),
        fit([pad, Span(_clock(view, shown, free), "faint")], width),
        fit([], width),
        fit([pad, Span(pieces([*told, *names], width - gutter - 1), "dim")], width),
    ]


def _clock(view: View, shown: int, free: int) -> str:
    """Times of the day under their cells; ages where a column is no whole number of seconds of the clock."""
    out = [" "] * (shown + free)
    column_s = view.column_ns / 1e9
    step = next((s for s in (10, 30, 60, 120, 300, 600, 1800, 3600, 14400) if s / column_s >= LABEL_EVERY), 0)
    if not step:
        return axis_labels(view, shown)
    finished = view.last_column - (1 if (view.last_column + 1) * view.column_ns > view.now_ns else 0)
    first = finished - shown + 1
    for cell in range(len(out)):
        before, after = (first + cell) * column_s // step, (first + cell + 1) * column_s // step
        if before != after or (first + cell) * column_s % step == 0:
            moment = int(after * step if before != after else (first + cell) * column_s)
            _put(out, cell, _time(moment))
    return "".join(out)


LABEL_EVERY = 12
"""Cells between two labels of the clock at least."""


def _put(out: list[str], cell: int, label: str) -> None:
    if cell + len(label) <= len(out) and all(char == " " for char in out[max(0, cell - 1) : cell + len(label)]):
        out[cell : cell + len(label)] = label


def _time(moment_s: int) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(moment_s))
    except (OverflowError, ValueError, OSError):
        return ""


def _phases(sight: Sight, width: int, height: int) -> list[Line]:
    """The ledger, and each bucket with its history, as tall as there is room."""
    view, run = calm_of(sight), chosen(calm_of(sight), sight.run_id)
    if run is None:
        return []
    shares = ledger.ordered(run.ledger)
    lines = [fit([], width), *ledger.lines(run, width, 15 if width >= 40 else 1, 2), fit([], width)]
    tall = max(1, min(4, (height - len(lines)) // max(1, len(shares)) - 1))
    if tall == 1:
        return lines + extras.phases(run, view, width)[1:]
    cells = max(0, width - 36)
    slow_run = chosen(sight.slow, sight.run_id) or run
    free = min(max(0, cells - 1), anchored(sight.slow, cells))
    for share in shares:
        values = on_axis(slow_run.phase_history.get(share.phase, ()), sight.slow, cells - free)
        drawn = graph(values, nice_top(values), tall)
        name = "gputop" if share.phase == "self" else clean(share.phase, 40)
        head = [Span(" "), *ledger.mark(share.phase), Span(f" {name[:12]:<12}"),
                Span(figures.ms(share.ms).rjust(9), "bold"), Span(figures.pct(share.pct).rjust(7) + "  ")]  # fmt: skip
        for index, text in enumerate(drawn):
            lead = head if index == tall - 1 else [Span(" " * 34)]
            lines.append(fit([*lead, Span(text, ledger.style_of(share.phase))], width))
        lines.append(fit([], width))
    return lines


def _verdicts(sight: Sight, width: int, height: int) -> list[Line]:
    """Every stretch under one verdict that is still known, the latest first, as many as fit."""
    run = chosen(calm_of(sight), sight.run_id)
    if run is None:
        return []
    lines = [fit([], width)]
    for segment in list(reversed(run.segments))[: max(1, height - 1)]:
        lines.append(_stretch(segment, width))
    return lines


def _stretch(segment: Segment, width: int) -> Line:
    family = family_of(segment.cause)
    lasted = figures.held(segment.to_ns - segment.from_ns)
    return fit(
        [Span(f"   {_time(segment.from_ns // 1_000_000_000):<8}  ", "dim"), Span(f"{lasted:>10}  ", "bold"),
         Span(f"{RIBBON[family] * 2} ", f"family.{family}"), Span(clean(segment.cause, 40))],
        width,
    )  # fmt: skip
