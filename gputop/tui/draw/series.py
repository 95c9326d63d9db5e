"""A history as a row of glyphs on the shared time axis."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeVar

from gputop.tui.glyphs import RAMP, ZERO
from gputop.view import View

T = TypeVar("T")


def on_axis(history: Sequence[T | None], view: View, cells: int) -> list[T | None]:
    """The newest `cells` finished columns, oldest first, padded with None where there is no history yet.

    A column that is still being filled is left out, so that nothing drawn is ever redrawn with another height.
    """
    open_now = (view.last_column + 1) * view.column_ns > view.now_ns
    values = list(history[:-1] if open_now and history else history)[-cells:] if cells > 0 else []
    return [None] * (cells - len(values)) + values


def glyph(value: float | None, top: float, low: float = 0.0) -> str:
    """The glyph for a value in a cell that covers `low` to `top`."""
    if value is None or not math.isfinite(value):
        return " "
    if value <= low:
        return ZERO if value <= 0 and low <= 0 else " "
    step = (value - low) / (top - low) * len(RAMP)
    return RAMP[min(len(RAMP) - 1, int(step - 1e-9))]


def graph(values: Sequence[float | None], top: float, rows: int = 1) -> list[str]:
    """The values as `rows` rows of glyphs from 0 to `top`, the upper row first."""
    top = top if top > 0 else 1.0
    out = []
    for row in range(rows - 1, -1, -1):
        low, high = top * row / rows, top * (row + 1) / rows
        out.append("".join(glyph(value, high, low) for value in values))
    return out


def nice_top(values: Sequence[float | None]) -> float:
    """The next round number above all values: a scale that seldom changes."""
    most = max((value for value in values if value is not None and math.isfinite(value)), default=0.0)
    if most < SMALLEST:
        return 1.0 if most <= 0 else SMALLEST
    power: float = 10.0 ** math.floor(math.log10(most))
    return next((power * step for step in STEPS if power * step >= most), power * 10)


SMALLEST = 1e-9
"""Below this a scale would show only rounding."""

STEPS = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)


def axis_labels(view: View, cells: int) -> str:
    """The axis under the histories: "now" (of the past: "here") at the right, round ages before it; fixed in place."""
    out = [" "] * cells
    if cells < 8 or view.column_ns <= 0:
        return "".join(out)
    end = "now" if view.cursor is None or (view.cursor.live and not view.cursor.replay) else "here"
    _place(out, end, cells - len(end))
    seconds_a_cell = view.column_ns / 1e9
    step = next((s for s in (10, 30, 60, 120, 300, 600, 1800, 3600, 14400) if s / seconds_a_cell >= 10), 0)
    step = step or math.ceil(10 * seconds_a_cell)
    age = step
    while (cell := cells - 1 - round(age / seconds_a_cell)) >= 0:
        _place(out, _age_label(age), cell)
        age += step
    return "".join(out)


def _age_label(seconds: int) -> str:
    if seconds < 120:
        return f"-{seconds} s"
    return f"-{seconds / 60:g} min" if seconds < 7200 else f"-{seconds / 3600:g} h"


def _place(out: list[str], label: str, cell: int) -> None:
    if cell >= 0 and cell + len(label) <= len(out) and all(c == " " for c in out[max(0, cell - 1) : cell + len(label)]):
        out[cell : cell + len(label)] = label
