"""Many GPUs as a table of cells: index, a bar for utilization, its figure, and memory."""

from __future__ import annotations

from gputop.tui import figures
from gputop.tui.draw.rows import known
from gputop.tui.draw.series import glyph
from gputop.tui.lines import Line, Span, fit
from gputop.view import GpuView, View

CELL = 19
"""Cells for one GPU: "12 ▇▇ 100 % mem 99"."""

ROOMY = 27
"""Cells from which one GPU is told in full: "GPU 12 ▇▇ 100 %  mem 99 %"."""

WIDEST = 34
"""More than this is never taken: the eye would have to look for what belongs together."""


def rows_needed(view: View, width: int) -> int:
    """Lines that all GPUs take."""
    return -(-len(view.gpus) // _most(width))


def _most(width: int) -> int:
    return max(1, (width - 1) // CELL)


def _across(many: int, width: int) -> int:
    """GPUs in a line: so many that all lines are about equally full."""
    most = _most(width)
    return max(1, -(-many // max(1, -(-many // most))))


def grid(view: View, own_uuid: str | None, width: int, rows: int) -> list[Line]:
    """As many GPUs as fit, in order; the last cell says how many more there are."""
    shown = list(view.gpus)
    left_out = max(0, len(shown) - _most(width) * rows)
    if left_out:
        shown = shown[: _most(width) * rows - 1]
        left_out = len(view.gpus) - len(shown)
    across = _across(len(shown) + bool(left_out), width)
    wide = min(WIDEST, (width - 1) // across)
    cells = [_cell(gpu, wide, own=gpu.gpu.gpu_uuid == own_uuid) for gpu in shown]
    if left_out:
        cells.append([Span(f"+{left_out} more: g".ljust(wide), "key")])
    lines = []
    for start in range(0, len(cells), across):
        lines.append(fit([Span(" "), *[span for cell in cells[start : start + across] for span in cell]], width))
    return lines[:rows]


def _cell(view: GpuView, wide: int, *, own: bool) -> list[Span]:
    gpu = view.gpu
    util, style = known(gpu, view.age_ns, "util_pct", figures.pct(gpu.util_pct))
    bar = "×" if gpu.lost else glyph(gpu.util_pct, 100.0)
    memory = figures.UNKNOWN
    if gpu.mem_used_bytes is not None and gpu.mem_total_bytes:
        memory = f"{gpu.mem_used_bytes / gpu.mem_total_bytes * 100:.0f}"
    index = "?" if gpu.gpu_index is None else str(gpu.gpu_index)
    if wide >= ROOMY:
        name, told = f"GPU {index:<2} {bar}{bar}", f" {util:>5}  mem {memory:>2} %"
    else:
        name, told = f"{index:>2} {bar}{bar}", f" {util:>5} mem {memory:>2}"
    rest = wide - len(name)
    told = told[: rest - 1].ljust(rest)
    if style:
        return [Span(name + told, style)]
    return [Span(name, "series"), Span(told, "bold" if own else "")]
