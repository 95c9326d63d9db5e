"""Tables of a report: rows of figures as text, and how they stand on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gputop import figures as fig
from gputop.records import clean
from gputop.report.paper import cells

Json = dict[str, Any]
Rows = list[list[str]]

RANKS_SHOWN = 16
"""Ranks in a table; of more, the odd ones and the first are shown and the rest is counted."""

FEWEST = 6
"""Cells of a text that are worth showing."""

NONE = "-"
"""Stands where a figure is not known."""


def table(rows: Rows, indent: str, align: str, limit: int | None = None, optional: Sequence[int] = ()) -> Iterator[str]:
    """Rows in columns, `l`eft or `r`ight aligned, two spaces apart, at most `limit` cells wide.

    Where they don't fit, `optional` columns are left out whole, in that order; a figure is never cut. Then words in the
    last column are, if it is left aligned, and what still doesn't fit stands out.
    """
    if not rows:
        return
    widths = [max(cells(_plain(row[column])) for row in rows) for column in range(len(rows[0]))]
    shown = list(range(len(widths)))
    for column in optional:
        if limit is None or _wide(indent, widths, shown) <= limit:
            break
        shown.remove(column)
    for row in rows:
        line = indent
        for column in shown:
            cell = row[column]
            if column == shown[-1] and align[column] == "l" and limit is not None:
                cell = _cut(cell, limit - cells(_plain(line)))
            gap = " " * (widths[column] - cells(_plain(cell)))
            line += (gap + cell if align[column] == "r" else cell + gap) + "  "
        yield line.rstrip()


def _wide(indent: str, widths: Sequence[int], shown: Sequence[int]) -> int:
    return len(indent) + sum(widths[column] + 2 for column in shown) - 2


def _cut(text: str, room: int) -> str:
    """Words without colours, at most `room` cells of them where that leaves some; else as they are."""
    if cells(_plain(text)) <= room or room < FEWEST:
        return text
    plain = _plain(text)
    while cells(plain) > room - 1:
        plain = plain[:-1]
    return plain.rstrip() + "…"


def _plain(text: str) -> str:
    """Text without its colours."""
    if "\x1b" not in text:
        return text
    out, skipping = [], False
    for char in text:
        if char == "\x1b":
            skipping = True
        if not skipping:
            out.append(char)
        elif char == "m":
            skipping = False
    return "".join(out)


def epoch_rows(run: Json, limit: int) -> Rows:
    """A head and a row for each epoch: number, steps, length, steps a second, what its first step cost."""
    epochs = run["epochs"]
    if not epochs:
        return []
    rows = [["epoch", "steps", "took", "steps/s", "first step"]]
    half = limit // 2
    few = epochs if len(epochs) <= limit else [*epochs[:half], None, *epochs[-half:]]
    for number, epoch in enumerate(few):
        if epoch is None:
            rows.append(["…"] * 5)
            continue
        name = epoch["epoch"] if epoch["epoch"] is not None else number + 1
        rows.append(
            [
                str(name),
                _or_none(epoch["steps"], fig.count),
                fig.span((epoch["to_ns"] - epoch["from_ns"]) / 1e9),
                _or_none(epoch["steps_per_s"], fig.rate),
                _or_none(epoch["first_step_ms"], fig.ms),
            ]
        )
    return rows


def gpu_rows(gpus: Sequence[Json]) -> Rows:
    """A head and a row for each GPU: utilization, memory, power, temperature, throttling, and its model."""
    rows = [["GPU", "used", "at most", "memory", "power", "hottest", "throttled", "model"]]
    for gpu in gpus:
        total = f"/{gpu['mem_total_bytes'] / fig.GIB:.0f}" if gpu["mem_total_bytes"] else ""
        limit = f"/{gpu['power_limit_w']:.0f}" if gpu["power_limit_w"] else ""
        rows.append(
            [
                "?" if gpu["gpu_index"] is None else str(gpu["gpu_index"]),
                _or_none(gpu["util_mean_pct"], fig.pct),
                _or_none(gpu["util_max_pct"], fig.pct),
                NONE if gpu["mem_peak_bytes"] is None else f"{fig.gib(gpu['mem_peak_bytes'])}{total} GiB",
                NONE if gpu["power_mean_w"] is None else f"{gpu['power_mean_w']:.0f}{limit} W",
                _or_none(gpu["temp_max_c"], lambda value: f"{value:.0f} °C"),
                _or_none(gpu["throttled_pct"], fig.pct),
                clean(gpu["name"] or "unknown model", 60) + (" (lost)" if gpu["lost"] else ""),
            ]
        )
    return rows


def _or_none(value: float | None, show: Callable[[float], str]) -> str:
    return NONE if value is None else show(value)


def rank_rows(members: Sequence[Json], job: Json) -> Rows:
    """A head and a row for each rank of a job: steps, usual and p95 step, data wait, GPU, verdict.

    The steps' lengths are those of steady steps, and so called, where any rank's are known.
    """
    odd = {outlier["run_id"] for outlier in job["outliers"]}
    steady = any(run["steady_ms"]["p50"] is not None for run in members)
    lengths = ["steady p50", "steady p95"] if steady else ["p50", "p95"]
    rows = [["rank", "steps", *lengths, "data", "GPU", "verdict"]]
    shown = list(members)
    if len(members) > RANKS_SHOWN:
        shown = [run for run in members if run["run_id"] in odd][: RANKS_SHOWN - 1]
        shown = sorted([*(run for run in members[:1] if run not in shown), *shown], key=lambda run: run["rank"] or 0)
    for run in shown:
        spread = run["steady_ms" if steady else "step_ms"]
        util = (run["gpu"] or {}).get("util_mean_pct")
        data = run["phases_pct"]["data"]
        rows.append(
            [
                NONE if run["rank"] is None else str(run["rank"]),
                fig.count(run["steps"]),
                _or_none(spread["p50"], fig.ms),
                _or_none(spread["p95"], fig.ms),
                _or_none(data, fig.pct),
                _or_none(util, fig.pct),
                clean(run["verdict"]["cause"], 40) + (" *" if run["run_id"] in odd else ""),
            ]
        )
    if len(shown) < len(members):
        rows.append(["…", "", "", "", "", "", f"{len(members) - len(shown)} more, much like rank {members[0]['rank']}"])
    return rows
