"""Every training run on this machine: its pace, its verdict, its GPU."""

from __future__ import annotations

from gputop.records import clean
from gputop.tui import figures, listing
from gputop.tui.draw import verdict
from gputop.tui.draw.sight import Sight, chosen, name_of
from gputop.tui.glyphs import tone_of
from gputop.tui.lines import Span
from gputop.tui.sheet import Deed, Sheet, Standing
from gputop.tui.tables import Column
from gputop.view import RunView

COLUMNS = (
    Column("run", 20, number=False), Column("verdict", 20, number=False), Column("step", 9),
    Column("steps/s", 8, rank=1),
    Column("for data", 8, rank=3), Column("state", 12, number=False, rank=2), Column("rank", 7, rank=1),
    Column("GPU", 5, rank=4), Column("pid", 8, rank=5), Column("steps", 10, rank=6),
    Column("held", 8, rank=7), Column("user", 10, number=False, rank=8),
)  # fmt: skip


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """One row a run; Enter shows the chosen one, as tab does."""
    if not sight.view.runs:
        return Sheet(verdict.waiting(sight.view, width, 5))
    now = chosen(sight.view, sight.run_id)
    return listing.draw(
        [_entry(run, sight) for run in sight.view.runs], width, at, titles=listing.titles_of(COLUMNS), columns=COLUMNS,
        marked="" if now is None else now.run.run_id, pick=True,
    )  # fmt: skip


def _entry(run: RunView, sight: Sight) -> listing.Entry:
    def cells() -> list[Span]:
        return _cells(run, sight)

    data = next((share.pct for share in run.ledger if share.phase == "data"), None)
    held = None if run.verdict.since_ns is None else sight.view.now_ns - run.verdict.since_ns
    return listing.Entry(
        key=run.run.run_id,
        values=(name_of(run.run, 20), run.verdict.cause, (run.step_ms or {}).get("p50"), run.steps_per_s, data,
                run.state, run.run.rank, _gpu_of(run, sight), run.run.pid, run.steps_total, held,
                None if sight.no_cmdline else run.run.user),
        words=listing.words_of(cells),
        draw=listing.table(COLUMNS, cells),
        opens=Deed("run", run.run.run_id),
    )  # fmt: skip


def _gpu_of(run: RunView, sight: Sight) -> int | None:
    return next((g.gpu.gpu_index for g in sight.view.gpus if g.gpu.gpu_uuid == run.gpu_uuid), None)


def _cells(run: RunView, sight: Sight) -> list[Span]:
    data = next((share.pct for share in run.ledger if share.phase == "data"), None)
    rank = "" if run.run.rank is None else f"{run.run.rank}/{run.run.world_size or '?'}"
    gpu = _gpu_of(run, sight)
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
