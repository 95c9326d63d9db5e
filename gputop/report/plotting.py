"""What the page's charts draw: the series as compact JSON, safe inside a script element."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from gputop.diagnosis.causes import FAMILIES
from gputop.records import clean
from gputop.report import words
from gputop.report.paper import BAR
from gputop.report.series import Line, Series

Json = dict[str, Any]

RUNS_DRAWN = 32
"""Runs that are drawn; of more, the odd ones and the first: a chart of a hundred lines shows none of them."""

DIGITS = 4
"""Significant digits of a drawn figure: more than a pixel shows."""


def plotted(report: Json, series: Series) -> Json:
    """The data of the charts. Times are seconds since the epoch, spans [from, to, cause]."""
    runs, names = _drawn(report), words.names(report)
    one_job = len({job["lead"] for job in report["jobs"]}) == 1
    phases = list(dict.fromkeys(name for run in runs for name in series.runs[run["run_id"]].phases))
    used = {(run["gpu"] or {}).get("uuid") for run in runs}
    gpus = [gpu for gpu in report["gpus"] if gpu["gpu_uuid"] in series.gpus]
    gpus = gpus if len(gpus) <= RUNS_DRAWN else [gpu for gpu in gpus if gpu["gpu_uuid"] in used][:RUNS_DRAWN]
    axis = series.axis
    return {
        "axis": {"from": axis.from_ns / 1e9, "width": axis.width_ns / 1e9, "n": axis.columns},
        "families": FAMILIES,
        "phases": sorted(phases, key=_place),
        "runs": [_run(run, series, one_job, names[run["run_id"]]) for run in runs],
        "gpus": [_gpu(gpu, series) for gpu in gpus],
        "hosts": [
            {"name": clean(name, 60), "cpu": _line(host.cpu), "iowait": _line(host.iowait)}
            for name, host in series.hosts.items()
        ],
        "marks": [
            {"t": mark["t_ns"] / 1e9, "kind": clean(mark["kind"], 40), "label": clean(mark["label"] or "", 80)}
            for mark in report["events"]
        ],
    }


def encoded(data: Json) -> str:
    """JSON that ends no script element and opens no comment in one, whatever its texts are."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False, ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _drawn(report: Json) -> list[Json]:
    runs = [run for run in report["runs"] if run["steps"] or run["timeline"]]
    if len(runs) <= RUNS_DRAWN:
        return runs
    first = {job["lead"] for job in report["jobs"]}
    first |= {one["run_id"] for job in report["jobs"] for one in job["outliers"]}
    chosen = [run["run_id"] for run in sorted(runs, key=lambda run: run["run_id"] not in first)[:RUNS_DRAWN]]
    return [run for run in runs if run["run_id"] in chosen]


def _place(phase: str) -> int:
    """Phases stand in the order of a step, the script's own before what is left."""
    order = [*(name for name in BAR if name not in ("self", "other")), "", "self", "other"]
    return order.index(phase) if phase in order else order.index("")


def _run(run: Json, series: Series, one_job: bool, name: str) -> Json:
    mine = series.runs[run["run_id"]]
    rank = run["rank"] if (run["world_size"] or 1) > 1 else None
    short = _short(name, 24) if rank is None else f"{_short(name, 20)} {rank}"
    return {
        "id": run["run_id"],
        "name": f"{name} rank {rank}" if rank is not None else name,
        "short": f"rank {rank}" if one_job and rank is not None else short,
        "chip": str(rank) if one_job and rank is not None else short,
        "gpu": (run["gpu"] or {}).get("uuid"),
        "p50": _line(mine.p50),
        "low": _line(mine.low),
        "high": _line(mine.high),
        "phases": {name: _line(line) for name, line in mine.phases.items()},
        "now": _spans(run["timeline"]),
        "then": _spans(run["said"]),
        "differs": bool(run["said_differs"]),
    }


def _short(name: str, most: int) -> str:
    """A name in few letters, with its end: what tells it from others stands there."""
    return name if len(name) <= most else f"{name[: most - 11]}…{name[-10:]}"


def _gpu(gpu: Json, series: Series) -> Json:
    mine = series.gpus[gpu["gpu_uuid"]]
    index = "?" if gpu["gpu_index"] is None else gpu["gpu_index"]
    return {
        "id": gpu["gpu_uuid"],
        "name": f"GPU {index} {clean(gpu['name'] or '', 60)}".strip(),
        "short": f"GPU {index}",
        "util": _line(mine.util),
        "peak": _line(mine.peak),
        "memory": _line(mine.memory_gib),
        "memory_total": _figure(gpu["mem_total_bytes"] / 1024**3) if gpu["mem_total_bytes"] else None,
        "power": _line(mine.power_w),
    }


def _spans(segments: Iterable[Json]) -> list[list[Any]]:
    return [[one["from_ns"] / 1e9, one["to_ns"] / 1e9, clean(one["cause"], 40)] for one in segments]


def _line(line: Line) -> list[float | None]:
    return [_figure(value) for value in line]


def _figure(value: float | None) -> float | None:
    """A figure in few digits; what is no number is not known."""
    if value is None or not math.isfinite(value):
        return None
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short
