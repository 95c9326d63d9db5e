"""Every GPU: load, memory, power, clocks, what slows it, and the processes on it."""

from __future__ import annotations

from math import isfinite
from typing import Any

from gputop import xids
from gputop.records import Gpu, GpuProcess, clean
from gputop.tui import figures, listing
from gputop.tui.draw.rows import detail_style, gpu_detail, known, why_no_gpu, xid
from gputop.tui.draw.series import graph, on_axis
from gputop.tui.draw.sight import Sight, chosen, own_gpu
from gputop.tui.lines import Line, Span, fit, pieces
from gputop.tui.sheet import Sheet, Standing
from gputop.view import GpuView, View

UNSEEN = "not to be seen from here: another container's, or it has just ended"
"""What is said of a process that the driver lists and this machine's (or container's) own list does not have."""

LEAST_HISTORY = 8
"""Cells below which a history says nothing."""

TITLES = ("index", "utilization", "memory in use", "power", "temperature", "name")


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """Three lines and its processes for each GPU; one whose process a filter names is kept too."""
    own = own_gpu(sight.view, chosen(sight.view, sight.run_id))
    entries = [_entry(gpu, sight, own=gpu is own) for gpu in sight.view.gpus]
    nothing = f"{why_no_gpu(sight.slow)}; gputop doctor tells more"
    return listing.draw(entries, width, at, titles=TITLES, nothing=nothing)


def _entry(view: GpuView, sight: Sight, *, own: bool) -> listing.Entry:
    gpu = view.gpu

    def lines(width: int, mark: str) -> list[Line]:
        head = _gpu(view, sight.slow, width, own=own)
        inside = [_instance(one, width) for one in gpu.mig or ()]
        return [*head, *inside, *(_process(process, width, sight) for process in gpu.processes or ()), fit([], width)]

    def words() -> str:
        running = [_words(process, sight) for process in gpu.processes or ()]
        return " ".join((f"GPU {gpu.gpu_index}", gpu.name or "", gpu.gpu_uuid, gpu.gpu_pci or "", *running))

    return listing.Entry(
        key=gpu.gpu_uuid,
        values=(gpu.gpu_index, gpu.util_pct, gpu.mem_used_bytes, gpu.power_w, gpu.temp_c, gpu.name),
        words=words,
        draw=lines,
        high=3 + len(gpu.mig or ()) + len(gpu.processes or ()) + (xid(view) is not None),
    )


def _words(process: GpuProcess, sight: Sight) -> str:
    told = (process.name,) if sight.no_cmdline else (process.name, process.cmdline, process.user)
    return " ".join([str(process.pid), *(part for part in told if part)])


def _gpu(view: GpuView, slow: View, width: int, *, own: bool) -> list[Line]:
    gpu = view.gpu
    util, util_style = known(gpu, view.age_ns, "util_pct", figures.pct(gpu.util_pct))
    memory, memory_style = known(
        gpu, view.age_ns, "mem_used_bytes", figures.used_of(gpu.mem_used_bytes, gpu.mem_total_bytes)
    )
    cells = min(60, width - 76)
    cells = cells if cells >= LEAST_HISTORY else 0
    history = graph(on_axis(view.util_history, slow, cells), 100.0)[0]
    name = f"GPU {gpu.gpu_index if gpu.gpu_index is not None else '?'}"
    told = (
        [fit([Span("        "), Span(xids.words(gpu.xid), detail_style(view))], width)] if gpu.xid and xid(view) else []
    )
    head = [
        Span(f" {name:<7}", "title" if own else "bold"), Span(f"{util:>6} ", util_style or "bold"),
        Span(f"{memory:>11}  ", memory_style or "bold"), Span(history, "series"), Span("  " if cells else ""),
        Span(pieces(gpu_detail(view), max(0, width - 28 - cells)), detail_style(view)),
    ]  # fmt: skip
    more = fit([Span("        "), Span(pieces(_more(gpu), max(0, width - 9)), "dim")], width)
    return [fit(head, width), *told, more]


def _more(gpu: Gpu) -> list[str]:
    parts = [clean(gpu.gpu_pci, 20)] if gpu.gpu_pci else []
    if gpu.pcie_gen is not None and gpu.pcie_width is not None:
        most = f" of {gpu.pcie_gen_max}x{gpu.pcie_width_max}" if gpu.pcie_gen_max and gpu.pcie_width_max else ""
        parts.append(f"PCIe {gpu.pcie_gen}x{gpu.pcie_width}{most}")
    if gpu.pcie_rx_bytes_s is not None:
        parts.append(f"to GPU {figures.rate(gpu.pcie_rx_bytes_s)}")
    if gpu.pcie_tx_bytes_s is not None:
        parts.append(f"from GPU {figures.rate(gpu.pcie_tx_bytes_s)}")
    for label, value in (("memory bus", gpu.mem_util_pct), ("SM active", gpu.sm_active_pct),
                         ("tensor cores", gpu.tensor_active_pct), ("DRAM active", gpu.dram_active_pct)):  # fmt: skip
        if value is not None:
            parts.append(f"{label} {figures.pct(value)}")
    if gpu.sm_clock_max_mhz is not None:
        parts.append(f"clock up to {gpu.sm_clock_max_mhz} MHz")
    if gpu.mig:
        parts.append(f"{len(gpu.mig)} MIG instances")
    if gpu.failed:
        parts.append("failed: " + clean(", ".join(gpu.failed), 60))
    if gpu.unsupported:
        parts.append(f"{len(gpu.unsupported)} figures not supported here")
    return parts


def _instance(one: dict[str, Any], width: int) -> Line:
    """A MIG instance: its kind, memory, work, and how many processes it has."""
    used, total, active = (_number(one.get(name)) for name in ("mem_used_bytes", "mem_total_bytes", "sm_active_pct"))
    listed = one.get("processes")
    parts = [
        clean(str(one.get("name") or one.get("uuid") or "MIG instance"), 40),
        figures.used_of(int(used), int(total)) if used is not None and total else "",
        f"SM active {figures.pct(active)}" if active is not None else "",
        f"{len(listed)} process{'' if len(listed) == 1 else 'es'}" if isinstance(listed, list) else "",
    ]
    return fit([Span("        ├ " if width > 30 else " ", "faint"), Span("  ".join(p for p in parts if p))], width)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and isfinite(value) else None


def _process(process: GpuProcess, width: int, sight: Sight) -> Line:
    text = process.name if sight.no_cmdline else process.cmdline or process.name
    parts = [
        f"pid {process.pid}",
        figures.size(process.mem_bytes) if process.mem_bytes is not None else "memory n/a",
        f"SM {figures.pct(process.sm_pct)}" if process.sm_pct is not None else "",
        "" if sight.no_cmdline else clean(process.user or "", 20),
        clean(text or "", 200) or ("" if process.name else UNSEEN),
    ]
    return fit([Span("        └ " if width > 30 else " ", "faint"), Span("  ".join(p for p in parts if p))], width)
