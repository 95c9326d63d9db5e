"""The rows of the overview: one measured thing each, with its figure of now, its history and its detail."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import msgspec

from gputop import xids
from gputop.records import Gpu, Process, clean
from gputop.tui import figures
from gputop.tui.draw import ribbon
from gputop.tui.draw.series import nice_top, on_axis
from gputop.tui.draw.sight import Sight, chosen, own_gpu
from gputop.view import GpuView, History, HostView, RunView, View

STALE_NS = 4_000_000_000
"""A sample older than this is called stale: samplers report once a second and may miss a beat or two."""

BURST_GAP_PCT = 15.0
"""From this distance between a column's mean and its highest driver sample, the peaks get a row of their own."""

BURST_SHARE = 0.2
"""... if that is so in more than this share of the columns: one ramp at the start of a run is no burst."""

PEAK_COLUMNS = 3
"""The peak's figure is the highest of so many latest columns: the newest still fills and may lie between bursts."""


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row. `top` is the value at full height; rows of the lowest `rank` stay longest when there is little room; one
    of the kind "note" says its detail across the whole line, for it has no history."""

    label: str
    number: str = ""
    number_style: str = ""
    history: History = ()
    top: float = 100.0
    style: str = "series"
    detail: tuple[str, ...] = ()
    detail_style: str = "dim"
    rank: int = 5
    grows: bool = False
    group: int = 0
    kind: str = "series"


def all_rows(sight: Sight, cells: int, room: int) -> list[Row]:
    """Every row there is to show, from top to bottom: `cells` wide histories, details of `room` cells.

    Figures come from the fast view, histories and details from the slow one.
    """
    fast, slow = sight.view, sight.slow
    run, slow_run = chosen(fast, sight.run_id), chosen(slow, sight.run_id)
    rows: list[Row] = []
    if run is not None and slow_run is not None:
        rows += step_rows(run, slow_run, slow, cells)
    rows += gpu_rows(sight, run, cells)
    rows += host_rows(fast, slow, run, slow_run)
    rows.append(Row(label="", kind="events", group=4, rank=6, detail=tuple(ribbon.legend(slow_run, slow, cells))))
    if slow_run is not None:
        rows.append(
            Row(label="why", group=4, kind="ribbon", rank=2, detail=(ribbon.story(slow_run, slow, cells, room),))
        )
    rows.append(Row(label="", kind="axis", group=4, rank=3))
    return rows


def step_rows(run: RunView, slow_run: RunView, slow: View, cells: int) -> list[Row]:
    """Median and 95th percentile of the step time; the second row's history is the longest step of each column."""
    now, was = run.step_ms or {}, slow_run.step_ms or {}
    usual, worst = on_axis(slow_run.step_history, slow, cells), on_axis(slow_run.step_max_history, slow, cells)
    top, worst_top = nice_top(usual), nice_top(worst)
    detail = []
    if slow_run.state == "stalled" and slow_run.last_ns is not None:
        detail.append(f"no step for {figures.held(slow.now_ns - slow_run.last_ns)}")
    if slow_run.clock is not None and slow_run.clock != "device":
        detail.append(f"{clean(slow_run.clock, 12)} clock")
    loader = slow_run.loader
    if loader is not None and loader.num_workers is not None:
        detail.append(figures.counted(loader.num_workers, "worker"))
    if loader is not None and loader.batch_size is not None:
        detail.append(f"batch {loader.batch_size}")
    lost = [f"{figures.counted(slow_run.dropped, 'step')} not kept"] if slow_run.dropped else []
    longest = [f"longest {figures.ms(was['max'])}"] if "max" in was else []
    gaps = [figures.counted(slow_run.gaps, "gap")] if slow_run.gaps else []
    return [
        Row(label="p50", number=figures.ms(now.get("p50")), history=slow_run.step_history, top=top,
            detail=(*detail, *_scale(usual, top)), rank=1, grows=True, group=1),
        Row(label="p95", group=1, number=figures.ms(now.get("p95")), history=slow_run.step_max_history, top=worst_top,
            style="peak", rank=3,
            detail=(*longest, *lost, *gaps, *_scale(worst, worst_top))),
    ]  # fmt: skip


def _scale(values: Sequence[float | None], top: float) -> list[str]:
    return [f"scale {figures.ms(top)}"] if any(value is not None for value in values) else []


def gpu_rows(sight: Sight, run: RunView | None, cells: int) -> list[Row]:
    """The run's own GPU in full; the others, up to four in all, as one row each (more become a table)."""
    fast, slow = sight.view, sight.slow
    if not fast.gpus:
        return [
            Row(label="GPU", group=2, kind="note", number=figures.UNKNOWN, number_style="dim",
                detail=(why_no_gpu(slow),), rank=1)
        ]  # fmt: skip
    own = own_gpu(fast, run)
    rows = gpu_in_full(own, slow, cells) if own is not None else []
    if len(fast.gpus) <= MOST_STRIPS:
        others = [gpu for gpu in fast.gpus if gpu is not own]
        rows += [util_row(gpu, same(gpu, slow), rank=4) for gpu in others]
    return rows


MOST_STRIPS = 4
"""Up to this many GPUs get a row each; more are shown as a table of cells."""


def why_no_gpu(view: View) -> str:
    """Why no GPU is shown, in the GPU sampler's own words where it has some."""
    for sampler in view.samplers:
        if sampler.backend not in ("host", "psutil") and sampler.state != "ok":
            return clean(sampler.why or f"{sampler.backend} {sampler.state}", 400)
    return "no GPU sampled yet"


def same(gpu: GpuView, view: View) -> GpuView:
    """The same GPU in another view; itself where that has none."""
    return next((other for other in view.gpus if other.gpu.gpu_uuid == gpu.gpu.gpu_uuid), gpu)


def gpu_in_full(own: GpuView, slow: View, cells: int) -> list[Row]:
    """Utilization, peaks where they tell more than it does, and memory."""
    gpu, was = own.gpu, same(own, slow)
    rows = [util_row(own, was, rank=1)]
    means, peaks = on_axis(was.util_history, slow, cells), on_axis(was.util_max_history, slow, cells)
    gaps = [peak - (mean or 0) for mean, peak in zip(means, peaks, strict=True) if peak is not None]
    apart = sum(gap >= BURST_GAP_PCT for gap in gaps)
    if was.burst_note or apart > BURST_SHARE * len(gaps):
        recent = [peak for peak in own.util_max_history if peak is not None][-PEAK_COLUMNS:]
        note = clean(was.burst_note, 120) if was.burst_note else "the driver's highest sample"
        rows.append(Row(label=" peak", group=2, number=figures.pct(max(recent, default=None)),
                        history=was.util_max_history, style="peak", detail=(note,), rank=4))  # fmt: skip
    number, style = known(gpu, own.age_ns, "mem_used_bytes", figures.used_of(gpu.mem_used_bytes, gpu.mem_total_bytes))
    rows.append(Row(label=" mem", group=2, number=number, number_style=style, history=was.mem_history, rank=4,
                    detail=tuple(_memory_detail(was.gpu))))  # fmt: skip
    return rows


def util_row(gpu: GpuView, was: GpuView, rank: int) -> Row:
    """Utilization: the figure of `gpu`, the history of `was`."""
    number, style = known(gpu.gpu, gpu.age_ns, "util_pct", figures.pct(gpu.gpu.util_pct))
    index = gpu.gpu.gpu_index
    return Row(label=f"GPU {index}" if index is not None else "GPU", group=2, number=number, number_style=style,
               history=was.util_history, detail=tuple(gpu_detail(was)), rank=rank, grows=rank == 1,
               detail_style=detail_style(gpu))  # fmt: skip


XID_NS = 3600 * 1_000_000_000
"""How long an error that the driver has reported is shown; always with its age, since it stays the last one."""


def xid(view: GpuView) -> str | None:
    """The last error that the driver has reported of a GPU, and how long ago; None where there is none of late."""
    gpu = view.gpu
    if gpu.xid is None or gpu.xid_ns is None or gpu.xid == xids.CLEANUP:
        return None
    age = gpu.t + view.age_ns - gpu.xid_ns
    return f"XID {gpu.xid} {figures.held(age)} ago" if 0 <= age <= XID_NS else None


def detail_style(view: GpuView) -> str:
    """How what is said of a GPU looks: one that is lost, or has an error of its own, is bad."""
    failing = xid(view) is not None and xids.of_device(view.gpu.xid or 0)
    return "bad" if view.gpu.lost or failing else "dim"


def known(gpu: Gpu, age_ns: int, field: str, text: str) -> tuple[str, str]:
    """A figure of a GPU and its style: unsupported, failed, not yet known, stale and plain look different."""
    if getattr(gpu, field) is None:
        if field in (gpu.unsupported or ()):
            return figures.UNSUPPORTED, "dim"
        if field in (gpu.failed or ()):
            return figures.FAILED, "bad"
        return figures.UNKNOWN, "dim"
    return (text, "stale") if age_ns > STALE_NS else (text, "")


def gpu_detail(view: GpuView) -> list[str]:
    """Name, temperature, power, clock and what throttles, the most telling first."""
    gpu = view.gpu
    parts = ["lost: the driver no longer reaches it"] if gpu.lost else []
    if (error := xid(view)) is not None:
        parts.append(error)
    if view.trouble:
        parts += clean(view.trouble, 70).split(": ")
    elif view.age_ns > STALE_NS:
        parts.append(f"{figures.held(view.age_ns)} old")
    if gpu.name:
        parts.append(clean(gpu.name, 40).removeprefix("NVIDIA ").removeprefix("GeForce "))
    throttle = [reason for reason in gpu.throttle or () if reason not in ("idle", "app_clocks")]
    if throttle:
        parts.append("throttled: " + clean(", ".join(throttle).replace("_", " "), 40))
    if gpu.power_w is not None:
        limit = f"/{gpu.power_limit_w:.0f}" if gpu.power_limit_w is not None else ""
        parts.append(f"{gpu.power_w:.0f}{limit} W")
    if gpu.temp_c is not None:
        parts.append(f"{gpu.temp_c:.0f} °C")
    if gpu.sm_clock_mhz is not None:
        parts.append(f"{gpu.sm_clock_mhz} MHz")
    if gpu.sm_active_pct is not None:
        parts.append(f"SM active {figures.pct(gpu.sm_active_pct)}")
    return parts


def _memory_detail(gpu: Gpu) -> list[str]:
    parts = []
    if gpu.mem_used_bytes is not None and gpu.mem_total_bytes:
        parts.append(f"{figures.pct(gpu.mem_used_bytes / gpu.mem_total_bytes * 100)} in use")
    if gpu.processes is not None:
        parts.append(f"{len(gpu.processes)} process{'' if len(gpu.processes) == 1 else 'es'}")
    if gpu.mem_util_pct is not None:
        parts.append(f"memory bus {figures.pct(gpu.mem_util_pct)}")
    return parts


def host_rows(fast: View, slow: View, run: RunView | None, slow_run: RunView | None) -> list[Row]:
    """The CPU: the machine's use, the run's own threads and workers, waits for disks, idle cores."""
    if fast.host is None:
        return [
            Row(
                label="CPU", group=3, number=figures.UNKNOWN, number_style="dim", detail=("no host sample yet",), rank=2
            )
        ]
    now, was = fast.host, slow.host or fast.host
    style = "stale" if now.age_ns > STALE_NS else "" if now.host.cpu_pct is not None else "dim"
    detail = tuple(cpu_detail(was, slow_run.process if slow_run else None))
    return [Row(label="CPU", group=3, number=figures.pct(now.host.cpu_pct), number_style=style, history=was.cpu_history,
                detail=detail, rank=2)]  # fmt: skip


FULL_DISK_PCT = 80.0
"""Time with requests from which a disk is named (as the limit that input-disk goes by)."""


def cpu_detail(view: HostView, process: Process | None) -> list[str]:
    """What the cores do, the most telling first."""
    host, parts = view.host, []
    if view.age_ns > STALE_NS:
        parts.append(f"{figures.held(view.age_ns)} old")
    if process is not None and process.main_thread_cpu_pct is not None:
        parts.append(f"main {figures.pct(process.main_thread_cpu_pct)}")
    elif process is not None and process.cpu_pct is not None:
        parts.append(f"process {figures.pct(process.cpu_pct)}")
    loads = [w.cpu_pct for w in (process.workers if process and process.workers else ()) if w.cpu_pct is not None]
    if loads:
        parts.append(f"workers {figures.pct(sum(loads))}")
    if host.cores is not None and host.cpu_pct is not None and isfinite(host.cpu_pct):
        parts.append(f"{round(host.cores * (100 - host.cpu_pct) / 100)}/{host.cores} cores idle")
    if host.iowait_pct is not None:
        parts.append(f"iowait {figures.pct(host.iowait_pct)}")
    full = max(host.disks or (), key=lambda disk: disk.busy_pct or 0.0, default=None)
    if full is not None and (full.busy_pct or 0.0) >= FULL_DISK_PCT:
        parts.append(f"{clean(full.name, 12)} {figures.pct(full.busy_pct)} busy")
    if host.disk_read_bytes_s is not None:
        parts.append(f"disk {figures.rate(host.disk_read_bytes_s)}")
    if host.mem_used_bytes is not None and host.mem_total_bytes is not None:
        parts.append(f"RAM {figures.used_of(host.mem_used_bytes, host.mem_total_bytes)}")
    return parts
