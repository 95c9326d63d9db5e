"""Where each figure comes from, how old it is, and what is known of the run's set-up."""

from __future__ import annotations

from collections.abc import Iterator

from gputop.diagnosis.wording import ordinal
from gputop.records import Sampler, clean
from gputop.tui import figures
from gputop.tui.draw import recorded, transport
from gputop.tui.draw.rows import STALE_NS, why_no_gpu
from gputop.tui.draw.sight import Sight, chosen
from gputop.tui.lines import Line, Span, fit, wrap
from gputop.view import RunView, View

MATCHES = {
    "uuid": "by the GPU's UUID, which the training process itself names",
    "pci": "by PCI address, which the training process itself names",
    "pid": "by the driver's list of processes",
    "visible": "by its CUDA_VISIBLE_DEVICES",
    "only": "because this machine has only one",
}

CLOCKS = {
    "device": "device events: when the GPU really began and ended",
    "host": "the host's clock alone: device time is not measured",
    "sampled": "sampled stacks: shares are estimates",
}


def draw(sight: Sight, width: int) -> list[Line]:
    """All lines of the page."""
    view, run = sight.view, chosen(sight.view, sight.run_id)
    lines = [_heading("sources", width)]
    lines += _pair(
        "this picture",
        f"{clean(view.source or 'live', 80)}, one history column every {view.column_ns / 1e9:g} s",
        width,
    )
    if view.cursor is not None:
        lines += _pair("its time", transport.summary(view.cursor), width)
    if view.recording is not None:
        style = "" if view.recording.state == "recording" else "bad"
        lines += _pair("recorded into", recorded.summary(view.recording, view.now_ns), width, style)
        for sentence in view.recording.said:
            lines += _pair("", clean(sentence, 300), width)
    lines += _gpus(view, width) + _host(view, width)
    for sampler in view.samplers:
        words = [sampler.state, f"in {sampler.call}" if sampler.call else "", sampler.why or "", *_cost(sampler)]
        lines += _pair(f"sampler {clean(sampler.backend, 12)}", clean(", ".join(w for w in words if w), 300), width)
    if sight.cost is not None:
        text = f"{sight.cost.cpu_pct:.1f} % of a core, {figures.rate(sight.cost.bytes_s)} to the terminal"
        lines += _pair("this screen costs", text, width)
    for fault in sight.faults:
        lines += _pair("configuration", clean(fault, 400), width, "warn")
    for warning in view.warnings:
        lines += _pair("warning", clean(warning, 400), width, "warn")
    if run is not None:
        lines += _run(run, view, width)
    return lines


def _cost(sampler: Sampler) -> Iterator[str]:
    """What a sampler takes: its process, a round of questions (nearly all of it in the driver), how often it asks."""
    if sampler.cpu_pct is not None:
        yield f"{sampler.cpu_pct:.1f} % of a core"
    if sampler.self_ns is not None:
        every = f", one every {sampler.every_ns / 1e9:.1f} s" if sampler.every_ns is not None else ""
        yield f"a round takes {figures.ms(sampler.self_ns / 1e6)}{every}"


def _heading(text: str, width: int) -> Line:
    return fit([Span(f" {text}", "title")], width)


def _pair(label: str, text: str, width: int, style: str = "") -> list[Line]:
    rows = wrap(text, max(8, width - 22), 6) or [""]
    return [
        fit([Span(f"   {label if not index else '':<17} ", "dim"), Span(row, style)], width)
        for index, row in enumerate(rows)
    ]


def _age(ns: int) -> str:
    text = f"{ns / 1e9:.0f} s old"
    return f"stale, {text}" if ns > STALE_NS else text


def _gpus(view: View, width: int) -> list[Line]:
    if not view.gpus:
        return _pair("GPU", why_no_gpu(view), width)
    lines = []
    for gpu in view.gpus:
        what = "simulated GPU" if gpu.gpu.simulated else "the driver (NVML)"
        text = f"{what}, {_age(gpu.age_ns)}; the history is the mean of the driver's samples, peak the highest of them"
        lines += _pair(f"GPU {gpu.gpu.gpu_index if gpu.gpu.gpu_index is not None else '?'}", text, width)
        if gpu.gpu.unsupported:
            lines += _pair("", "cannot say: " + clean(", ".join(gpu.gpu.unsupported), 300), width)
        if gpu.gpu.failed:
            lines += _pair("", "failed: " + clean(", ".join(gpu.gpu.failed), 300), width, "bad")
    return lines


def _host(view: View, width: int) -> list[Line]:
    if view.host is None:
        return _pair("CPU, disk, memory", "no sample yet", width)
    lines = _pair("CPU, disk, memory", f"the operating system, {_age(view.host.age_ns)}", width)
    for disk in view.host.host.disks or ():
        parts = [
            f"{figures.pct(disk.busy_pct)} busy" if disk.busy_pct is not None else "",
            f"{figures.ms(disk.await_ns / 1e6)} a request" if disk.await_ns is not None else "",
            f"reads {figures.rate(disk.read_bytes_s)}, writes {figures.rate(disk.write_bytes_s)}",
        ]
        lines += _pair(f"disk {clean(disk.name, 12)}", ", ".join(part for part in parts if part), width)
    if view.host.host.unsupported:
        lines += _pair("", "cannot say: " + clean(", ".join(view.host.host.unsupported), 300), width)
    return lines


def _run(run: RunView, view: View, width: int) -> list[Line]:
    info = run.run
    lines = [fit([], width), _heading("this run", width)]
    clock = CLOCKS.get(run.clock or "", "clock not known")
    lines += _pair("steps", f"the training process itself, pid {info.pid}; {clock}", width)
    if (every := info.detail_every or 1) > 1:
        how = f"every {ordinal(every)} one in detail, the others counted and timed: they are so short that to follow "
        lines += _pair("", f"{how}all of them would take more than 1 % of the training's time", width)
    lines += _pair("its GPU", MATCHES.get(run.gpu_match or "", "not matched to one"), width)
    lost, gaps = figures.counted(run.dropped, "step"), figures.counted(run.gaps, "gap")
    lines += _pair("quality", f"{lost} not kept, {gaps} in what was received", width)
    if run.outside_ns is not None:
        lines += _pair("outside steps", f"{figures.seconds(run.outside_ns / 1e9)}, in no share", width)
    soft = " ".join(clean(part, 30) for part in (info.framework, info.framework_version) if part)
    lines += _pair(
        "software", f"{soft or 'framework not known'}, Python {clean(info.python or figures.UNKNOWN, 20)}", width
    )
    lines += _setup(run, width)
    if info.tracer_attached:
        lines += _pair("note", "a debugger or tracer is attached: times may be inflated", width, "warn")
    return lines


def _setup(run: RunView, width: int) -> list[Line]:
    lines: list[Line] = []
    if (loader := run.loader) is not None:
        parts = [
            clean(loader.dataset or "", 40),
            *(f"{name} {value}" for name, value in (
                ("batch", loader.batch_size), ("workers", loader.num_workers), ("prefetch", loader.prefetch_factor),
                ("pinned", loader.pin_memory), ("persistent", loader.persistent_workers)) if value is not None),
        ]  # fmt: skip
        lines += _pair("loader", ", ".join(part for part in parts if part), width)
    if (model := run.model) is not None:
        parts = [clean(model.name or "", 40)]
        if model.param_count is not None:
            parts.append(f"{figures.count(model.param_count)} parameters")
        parts += [f"{clean(d, 20)} {figures.count(n)}" for d, n in (model.dtypes or {}).items()]
        parts += [clean(model.optimizer or "", 30), "compiled" if model.compiled else ""]
        lines += _pair("model", ", ".join(part for part in parts if part), width)
    return lines
