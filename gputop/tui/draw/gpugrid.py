"""Many GPUs as a table of cells: index, a bar for utilization, its figure, and memory."""

from __future__ import annotations

from gputop.tui import figures
from gputop.tui.draw.rows import STALE_NS, known
from gputop.tui.draw.series import glyph
from gputop.tui.lines import Line, Span, fit
from gputop.view import GpuView, View

CELL = 19
"""Cells for one GPU: "12 ▇▇ 100 % mem 99"."""


def rows_needed(view: View, width: int) -> int:
    """Lines that all GPUs take."""
    across = max(1, (width - 1) // CELL)
    return -(-len(view.gpus) // across)


def grid(view: View, own_uuid: str | None, width: int, rows: int) -> list[Line]:
    """As many GPUs as fit, in order; the last cell says how many more there are."""
    across = max(1, (width - 1) // CELL)
    shown = list(view.gpus)
    left_out = max(0, len(shown) - across * rows)
    if left_out:
        shown = shown[: across * rows - 1]
        left_out = len(view.gpus) - len(shown)
    cells = [_cell(gpu, own=gpu.gpu.gpu_uuid == own_uuid) for gpu in shown]
    if left_out:
        cells.append([Span(f"+{left_out} more: g".ljust(CELL), "key")])
    lines = []
    for start in range(0, len(cells), across):
        lines.append(fit([Span(" "), *[span for cell in cells[start : start + across] for span in cell]], width))
    return lines[:rows]


def _cell(view: GpuView, *, own: bool) -> list[Span]:
    gpu = view.gpu
    util, style = known(gpu, view.age_ns, "util_pct", figures.pct(gpu.util_pct))
    bar = "×" if gpu.lost else glyph(gpu.util_pct, 100.0)
    memory = figures.UNKNOWN
    if gpu.mem_used_bytes is not None and gpu.mem_total_bytes:
        memory = f"{gpu.mem_used_bytes / gpu.mem_total_bytes * 100:.0f}"
    index = "?" if gpu.gpu_index is None else str(gpu.gpu_index)
    text = f"{index:>2} {bar}{bar} {util:>5} mem {memory:>2}"
    if style == "" and view.age_ns <= STALE_NS:
        style = "bold" if own else "series"
    return [Span(text[: CELL - 1].ljust(CELL), style)]
