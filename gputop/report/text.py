"""Words for a terminal or a pipe: what holds each run back, how we know, what to change, what it would gain."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import PurePath

from gputop import figures as fig
from gputop.records import Gpu, Host, Run, Sampler, Verdict, clean
from gputop.report import summary, words
from gputop.report.judged import Judged
from gputop.report.paper import Paper, joined, paragraph
from gputop.report.words import LONG
from gputop.view import RunView, View

SHORT = {
    "data": "data", "h2d": "h2d", "forward": "fwd", "backward": "bwd", "optimizer": "opt", "sync": "sync",
    "checkpoint": "ckpt", "eval": "eval", "comm": "comm", "self": "gputop", "other": "other",
}  # fmt: skip
"""What a phase is called where room is short."""


def of_view(view: View, idle: Verdict | None = None, paper: Paper | None = None) -> str:
    """A live look in words."""
    paper = paper or Paper()
    return paper.finish("\n".join(_view_lines(view, idle, paper)) + "\n")


def of_trace(judged: Judged, warnings: tuple[str, ...] = (), paper: Paper | None = None) -> str:
    """A whole trace in words."""
    return words.of_report(summary.of_trace(judged, warnings), paper)


def verdict_line(verdict: Verdict) -> str:
    """The verdict on one line: cause, headline, the first thing to do, its gain, confidence."""
    parts = [f"{verdict.cause.upper()}: {clean(verdict.headline, 400)}"]
    if verdict.advice:
        parts.append(f"→ {clean(verdict.advice[0].do, 200)}")
    parts += gain_words(verdict)
    return " · ".join(parts)


def gain_words(verdict: Verdict) -> list[str]:
    """Gain and confidence in words, as far as they are known."""
    said = []
    if verdict.speedup_limit is not None and verdict.speedup_limit >= 1.05:
        said.append(f"up to {verdict.speedup_limit:.1f}x faster")
    if verdict.cause not in ("unknown", "idle", "warmup"):
        said.append(f"confidence {100 * verdict.confidence:.0f} %")
    if verdict.tentative and verdict.cause != "warmup":
        said.append("tentative")
    return said


def run_title(run: Run) -> str:
    """A run's name: script, rank when there are several, process."""
    parts = [clean(PurePath(run.script).name if run.script else run.run_id, 60)]
    if run.world_size is not None and run.world_size > 1:
        parts.append(f"rank {run.rank}/{run.world_size}")
    if run.pid:
        parts.append(f"pid {run.pid}")
    return " · ".join(parts)


def _view_lines(view: View, idle: Verdict | None, paper: Paper) -> Iterator[str]:
    when = time.strftime("%H:%M:%S", time.localtime(view.now_ns / 1e9))
    yield " · ".join(
        ["gputop", clean(view.hostname, 60) or "this machine", when] + (["simulated GPU"] if view.simulated else [])
    )
    for run in view.runs:
        yield ""
        yield from _run_lines(run, paper)
    if not view.runs:
        yield ""
        if idle is not None:
            yield from paragraph(verdict_line(idle), paper.width, "", "  ")
        if view.waiting:
            yield from paragraph(view.waiting, paper.width, "  ")
    yield ""
    yield from (line for text in _machine_lines(view) for line in paragraph(text, paper.width, "", "  "))
    for warning in view.warnings:
        yield from paragraph(clean(warning, LONG), paper.width, "note: ")


def _run_lines(run: RunView, paper: Paper) -> Iterator[str]:
    facts = [run_title(run.run), f"step {fig.count(run.steps_total)}"]
    if run.step_ms is not None:
        facts.append(f"{fig.ms(run.step_ms['p50'])} a step (p95 {fig.ms(run.step_ms['p95'])})")
    if run.samples_per_s:
        facts.append(f"{fig.rate(run.samples_per_s)} samples/s")
    if run.state not in ("training", "starting"):
        facts.append({"ended": "ended", "lost": "process vanished", "stalled": "stalled"}[run.state])
    yield from paragraph(joined(facts), paper.width, "", "  ")
    yield from words.verdict_lines(summary.full(run.verdict), gain_words(run.verdict), paper)
    for notice in run.verdict.notices:
        yield from paragraph(clean(notice, LONG), paper.width, "  note: ", "    ")
    if run.ledger:
        clock = "" if run.clock == "device" else f"  ({run.clock or 'host'} clock)"
        shares = joined(f"{SHORT.get(s.phase, clean(s.phase, 20))} {s.pct:.0f} %" for s in run.ledger)
        yield from paragraph(shares + clock, paper.width, "  time: ", "    ")


def _machine_lines(view: View) -> Iterator[str]:
    for gpu in view.gpus:
        yield gpu_line(gpu.gpu) + (f" · {gpu.burst_note}" if gpu.burst_note else "")
    noticed = " ".join(notice for run in view.runs for notice in run.verdict.notices)
    for sampler in view.samplers:
        if sampler.state != "ok" and not (sampler.why and sampler.why in noticed):
            yield sampler_line(sampler)
    if view.host is not None:
        yield host_line(view.host.host)


def gpu_line(gpu: Gpu) -> str:
    """One GPU in one line; what is not known is left out."""
    name = clean(gpu.name or "unknown model", 40)
    parts = [f"GPU {gpu.gpu_index if gpu.gpu_index is not None else '?'} {name}"]
    if gpu.lost:
        return parts[0] + " · lost: it fell off the bus or its driver failed"
    if gpu.util_pct is not None:
        parts.append(f"{gpu.util_pct:.0f} % used")
    elif "util_pct" in (gpu.unsupported or ()):
        parts.append("utilization not supported")
    if gpu.mem_used_bytes is not None and gpu.mem_total_bytes:
        parts.append(fig.used_of(gpu.mem_used_bytes, gpu.mem_total_bytes))
    if gpu.power_w is not None:
        parts.append(f"{gpu.power_w:.0f} W")
    if gpu.temp_c is not None:
        parts.append(f"{gpu.temp_c:.0f} °C")
    return " · ".join(parts)


def host_line(host: Host) -> str:
    """The machine in one line; what is not known is left out."""
    parts = [f"host {clean(host.host, 40)}"]
    if host.cpu_pct is not None:
        parts.append(f"CPU {host.cpu_pct:.0f} %" + (f" of {host.cores} cores" if host.cores else ""))
    if host.iowait_pct is not None:
        parts.append(f"iowait {host.iowait_pct:.0f} %")
    if host.mem_used_bytes is not None and host.mem_total_bytes:
        parts.append(f"memory {fig.used_of(host.mem_used_bytes, host.mem_total_bytes)}")
    return " · ".join(parts)


def sampler_line(sampler: Sampler) -> str:
    """What is wrong with a sampler, in one line."""
    return f"{clean(sampler.backend, 30)}: {clean(sampler.state, 30)}" + (
        f": {clean(sampler.why, 300)}" if sampler.why else ""
    )
