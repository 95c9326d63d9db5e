"""Every training run on this machine: its pace, its verdict, its GPU."""

from __future__ import annotations

from gputop.records import clean
from gputop.tui import figures
from gputop.tui.draw import verdict
from gputop.tui.draw.sight import Sight, chosen, name_of
from gputop.tui.glyphs import tone_of
from gputop.tui.lines import Line, Span, fit
from gputop.tui.tables import Column, choose, heading, row
from gputop.view import RunView

COLUMNS = (
    Column("run", 20, number=False), Column("verdict", 20, number=False), Column("step", 9),
    Column("steps/s", 8, rank=1),
    Column("for data", 8, rank=2), Column("state", 12, number=False, rank=1), Column("rank", 7, rank=3),
    Column("GPU", 5, rank=4), Column("pid", 8, rank=5), Column("steps", 10, rank=6),
    Column("held", 8, rank=7), Column("user", 10, number=False, rank=8),
)  # fmt: skip


def draw(sight: Sight, width: int) -> list[Line]:
    """One row a run; tab moves the mark."""
    if not sight.view.runs:
        return [fit([], width), *verdict.waiting(sight.view, width, 5)]
    now = chosen(sight.view, sight.run_id)
    kept = choose(COLUMNS, width - 2)
    lines = [fit([], width), heading(COLUMNS, kept, width)]
    for run in sight.view.runs:
        lines.append(row(COLUMNS, kept, _cells(run, sight), width, "▸" if run is now else " "))
    return lines


def _cells(run: RunView, sight: Sight) -> list[Span]:
    data = next((share.pct for share in run.ledger if share.phase == "data"), None)
    rank = "" if run.run.rank is None else f"{run.run.rank}/{run.run.world_size or '?'}"
    gpu = next((g.gpu.gpu_index for g in sight.view.gpus if g.gpu.gpu_uuid == run.gpu_uuid), None)
    since = run.verdict.since_ns
    return [
        Span(name_of(run.run, 20), "bold"),
        Span(clean(run.verdict.cause, 20), tone_of(run.verdict.cause)),
        Span(figures.ms((run.step_ms or {}).get("p50"))),
        Span(figures.number(run.steps_per_s)),
        Span(figures.pct(data)),
        Span(clean(run.state, 12), "bad" if run.state in ("stalled", "lost") else "dim"),
        Span(rank, "dim"),
        Span(figures.UNKNOWN if gpu is None else str(gpu), "dim"),
        Span(str(run.run.pid), "dim"),
        Span(figures.count(run.steps_total), "dim"),
        Span("" if since is None else figures.held(sight.view.now_ns - since), "dim"),
        Span("" if sight.no_cmdline else clean(run.run.user or "", 20), "dim"),
    ]
