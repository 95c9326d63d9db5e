"""The ranks of a job side by side: a strip of heat, a cell a rank, and each rank's figures; Enter shows a rank.

What a rank does by itself is compared: its step is as long as everybody's, since all wait for the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec
from msgspec import structs

from gputop.records import clean
from gputop.tui import figures, listing
from gputop.tui.draw.sight import Sight, calm_of, chosen, name_of
from gputop.tui.glyphs import RAMP, tone_of
from gputop.tui.lines import Line, Span, fit, pieces
from gputop.tui.sheet import Deed, Sheet, Standing
from gputop.tui.tables import Column
from gputop.view import GpuView, RunView, View

SHARED = frozenset({"comm", "sync"})
"""Phases in which a rank waits for others, or may."""

UNMARKED = frozenset({"backward", "optimizer"})
"""The same where no rank marks its exchange: it then lies within the backward pass."""

LATE, VERY_LATE = 0.1, 0.3
"""Shares of a step from which a rank's excess over the median rank is warm, and hot."""

FULL = 0.5
"""The share at which a cell is full."""

COLUMNS = (
    Column("rank", 5), Column("own time", 9), Column("late by", 9), Column("mostly in", 10, number=False, rank=0),
    Column("step", 9, rank=1), Column("for data", 8, rank=2), Column("state", 9, number=False, rank=1),
    Column("GPU", 5, rank=3), Column("util", 6, rank=3), Column("verdict", 20, number=False, rank=2),
    Column("host", 16, number=False, rank=5), Column("pid", 8, rank=4),
)  # fmt: skip


class Rank(msgspec.Struct, frozen=True):
    """A rank: what it does by itself in ms a step, by how much that exceeds the median rank's, and mostly in what."""

    run: RunView
    own: float | None = None
    late: float | None = None
    part: str = ""


def sheet(sight: Sight, width: int, height: int, at: Standing) -> Sheet:
    """The strip and the table of the chosen run's job, or of the largest there is."""
    calm, now = calm_of(sight), chosen(sight.view, sight.run_id)
    every = compared(of_now(job_of(calm, chosen(calm, sight.run_id)), sight.view))
    gpus = {gpu.gpu.gpu_uuid: gpu for gpu in calm.gpus}
    return listing.draw(
        [_entry(rank, gpus) for rank in every], width, at, titles=listing.titles_of(COLUMNS), columns=COLUMNS,
        above=[*_summary(every, width), *strip(every, width, max(1, height - 8)), fit([], width)] if every else (),
        marked="" if now is None else now.run.run_id, pick=True,
        nothing="no job of several ranks here: torchrun and its like start them, and each publishes by itself",
    )  # fmt: skip


def of_now(job: Sequence[RunView], newest: View) -> list[RunView]:
    """The ranks with their figures as they are, which cost a line each at every change, and the state of now: a rank
    that stalls or dies is seen at once."""
    states = {one.run.run_id: one.state for one in newest.runs}
    return [structs.replace(run, state=states.get(run.run.run_id, run.state)) for run in job]


def job_of(view: View, run: RunView | None) -> list[RunView]:
    """The ranks of the run's job, else of the largest job, in order; of a rank that was started anew the newest."""
    jobs: dict[tuple[str | None, int | None], dict[int, RunView]] = {}
    for one in view.runs:
        if one.run.rank is not None and (one.run.world_size or 1) > 1:
            ranks = jobs.setdefault((one.run.script, one.run.world_size), {})
            before = ranks.get(one.run.rank)
            if before is None or (before.first_ns or 0) <= (one.first_ns or 0):
                ranks[one.run.rank] = one
    own = None if run is None else jobs.get((run.run.script, run.run.world_size))
    ranks = own or max(jobs.values(), key=len, default={})
    return [ranks[rank] for rank in sorted(ranks)]


def compared(job: Sequence[RunView]) -> list[Rank]:
    """The ranks with what each does by itself, against the median rank."""
    marked = any(share.phase == "comm" for run in job for share in run.ledger)
    left_out = SHARED if marked else SHARED | UNMARKED
    parts = [{share.phase: share.ms for share in run.ledger if share.phase not in left_out} for run in job]
    known = [sum(own.values()) for own in parts if own]
    usual = median(known) if known else 0.0
    usual_in = {
        phase: median([own.get(phase, 0.0) for own in parts if own]) for phase in {p for own in parts for p in own}
    }
    out = []
    for run, own in zip(job, parts, strict=True):
        if not own:
            out.append(Rank(run))
            continue
        late = sum(own.values()) - usual
        part = max(own, key=lambda phase: own[phase] - usual_in[phase])
        out.append(Rank(run, sum(own.values()), late, part if late > 0 else ""))
    return out


def heat(rank: Rank) -> Span:
    """A rank's cell: how high, how late; "×" where it is gone, "!" where it stands still."""
    if rank.run.state in ("ended", "lost"):
        return Span("×", "bad" if rank.run.state == "lost" else "dim")
    if rank.run.state == "stalled":
        return Span("!", "tone.bad")
    if rank.late is None:
        return Span("·", "dim")
    share = _share(rank)
    style = "bar.bad" if share >= VERY_LATE else "bar.warn" if share >= LATE else "series"
    return Span(RAMP[max(0, min(len(RAMP) - 1, int(share / FULL * len(RAMP))))], style)


def _share(rank: Rank) -> float:
    """Its excess as a share of its step."""
    step = sum(share.ms for share in rank.run.ledger)
    return (rank.late or 0.0) / step if step > 0 else 0.0


def strip(every: Sequence[Rank], width: int, rows: int) -> list[Line]:
    """A cell a rank, a gap every eight, each line led by its first rank; at most `rows` lines."""
    across = max(8, (width - 8) * 8 // 9 // 8 * 8)
    lines: list[Line] = []
    for start in range(0, len(every), across):
        if len(lines) == rows - 1 and len(every) - start > across:
            lines.append(fit([Span(f"       {len(every) - start} more below", "dim")], width))
            break
        spans = [Span(f" {every[start].run.run.rank or 0:>5} ", "dim")]
        for index, rank in enumerate(every[start : start + across]):
            spans += [Span(" " if index and index % 8 == 0 else ""), heat(rank)]
        lines.append(fit(spans, width))
    return lines


def _summary(every: Sequence[Rank], width: int) -> list[Line]:
    first = every[0].run.run
    worlds = f"{len(every)} of {first.world_size} ranks seen"
    latest = max(every, key=lambda rank: rank.late if rank.late is not None else float("-inf"))
    said = "no steps yet"
    if latest.late is not None:
        said = "all ranks are about equally long at their own work"
        if _share(latest) >= LATE:
            said = (
                f"the latest: rank {latest.run.run.rank}, {figures.ms(latest.late)} behind the median in {latest.part}"
            )
    gone = sum(rank.run.state in ("lost", "stalled") for rank in every)
    text = pieces([said, worlds, f"{gone} lost or stalled" if gone else ""], max(8, width - 24))
    name = name_of(first, 20)
    return [fit([Span(f" {name}", "title"), Span(f"  {clean(text, 300)}", "warn" if _share(latest) >= LATE else "")],
                width)]  # fmt: skip


def _entry(rank: Rank, gpus: dict[str, GpuView]) -> listing.Entry:
    run = rank.run
    gpu = gpus.get(run.gpu_uuid or "")
    data = next((share.pct for share in run.ledger if share.phase == "data"), None)
    p50 = (run.step_ms or {}).get("p50")
    late = "" if rank.late is None else figures.ms(rank.late) if rank.late > 0 else "0"
    util = None if gpu is None else gpu.gpu.util_pct
    index = None if gpu is None else gpu.gpu.gpu_index

    def cells() -> list[Span]:
        return [
            Span(str(run.run.rank), "bold"),
            Span(figures.ms(rank.own)),
            Span(late, heat(rank).style.replace("bar.", "tone.") if _share(rank) >= LATE else "dim"),
            Span(clean(rank.part if _share(rank) >= LATE else "", 12), "dim"),
            Span(figures.ms(p50), "dim"),
            Span(figures.pct(data), "dim"),
            Span(clean(run.state, 12), "bad" if run.state in ("stalled", "lost") else "dim"),
            Span(figures.UNKNOWN if index is None else str(index), "dim"),
            Span(figures.pct(util), "dim"),
            Span(clean(run.verdict.cause, 20), tone_of(run.verdict.cause)),
            Span(clean(run.run.host, 60), "dim"),
            Span(str(run.run.pid), "dim"),
        ]

    return listing.Entry(
        key=run.run.run_id,
        values=(run.run.rank, rank.own, rank.late, rank.part or None, p50, data, run.state, index, util,
                run.verdict.cause, run.run.host, run.run.pid),
        words=lambda: f"rank {listing.words_of(cells)()}",
        draw=listing.table(COLUMNS, cells),
        opens=Deed("run", run.run.run_id),
    )  # fmt: skip
