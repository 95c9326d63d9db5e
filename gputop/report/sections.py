"""The parts of the page that need no script: verdict, advice, evidence and every figure as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputop import figures as fig
from gputop.diagnosis.causes import FAMILIES
from gputop.report import words
from gputop.report.markup import esc, grid, items, tag
from gputop.report.paper import BAR
from gputop.report.series import Series
from gputop.report.tables import NONE, epoch_rows, rank_rows

Json = dict[str, Any]

EPOCHS_SHOWN = 60
"""Epochs listed on the page; of more, the first and the last."""

MOMENTS = 36
"""Rows of the table that says over time what the charts show."""

EVENTS_SHOWN = 60

FAMILY_NAMES = {
    "input": "input", "transfer": "copies to the device", "host": "host", "placement": "placement", "device": "device",
    "distributed": "between ranks", "episodic": "now and then", "state": "state",
}  # fmt: skip


def job_section(lead: Json, members: list[Json], job: Json, *, alone: bool) -> str:
    """A job (mostly a run by itself): its verdict, what to change, how we know, and its figures."""
    many = len(members) > 1
    facts = words.facts(lead, len(members))
    name = " · ".join(facts[1:] if alone else facts)
    parts = [tag("p", esc(name), "meta") if alone else tag("h2", esc(name))]
    parts += [_verdict(lead), _tiles(lead)]
    of = f" on rank {lead['rank']}" if many and lead["rank"] is not None else ""
    ranks = _ranks(members, job) if many else ""
    blocks = (ranks, _ledger(lead, of), _steps(lead, of), _epochs(lead), _over(lead), _episodes(lead), _notes(lead))
    parts.append(tag("div", "\n".join(tag("div", block, "block") for block in blocks if block), "columns"))
    return tag("section", "\n".join(part for part in parts if part), "job")


def _verdict(run: Json) -> str:
    verdict = run["verdict"]
    family = FAMILIES.get(verdict["cause"], "state")
    return tag(
        "div",
        "\n".join(
            [
                tag("div", esc(verdict["cause"]), "cause"),
                tag("p", esc(verdict["headline"]), "headline"),
                items(words.gain(run), "gain"),
                _advice(verdict),
                _evidence(verdict),
            ]
        ),
        f"verdict f-{family}",
    )


def _advice(verdict: Json) -> str:
    if not verdict["advice"]:
        return ""
    out = []
    for advice in verdict["advice"]:
        why = tag("span", esc(advice["why"]), "why") if advice["why"] else ""
        lines = [esc(line) for line in (advice["code"] or "").splitlines()]
        code = tag("pre", tag("code", "\n".join(lines))) if lines else ""
        out.append(tag("li", tag("strong", esc(advice["do"])) + why + code))
    return tag("h3", "What to change") + tag("ol", "".join(out), "advice")


def _evidence(verdict: Json) -> str:
    if not verdict["evidence"]:
        return ""
    rows = [["", "signal", "value", "limit", "read from"]]
    for piece in verdict["evidence"]:
        sign = ("for", "+") if piece["supports"] else ("against", "−")
        rows.append(
            [
                f'<span class="{sign[0]}" title="speaks {sign[0]} it">{sign[1]}</span>',
                piece["signal"],
                words.value(piece["value"], piece["unit"]).removeprefix(": ") or NONE,
                words.limit(piece) or NONE,
                piece["source"] or NONE,
            ]
        )
    rival = verdict["runner_up"]
    after = ""
    if rival is not None:
        share = f", {fig.pct(rival['share_pct'])}" if rival["share_pct"] is not None else ""
        after = tag("p", f"Next after it: {esc(rival['cause'])}{share}.", "hint")
    return tag("h3", "How we know") + grid(rows, (2, 3), raw=0, optional=(3, 4)) + after


def _tiles(run: Json) -> str:
    steady = run["steady_ms"] if run["steady_ms"]["p50"] is not None else run["step_ms"]
    gpu = run["gpu"] or {}
    known = [
        ("a step (median)", steady["p50"], fig.ms),
        ("steps a second", run["steps_per_s"], fig.rate),
        ("samples a second", run["samples_per_s"], fig.rate),
        ("waiting for data", run["phases_pct"]["data"], fig.pct),
        ("GPU used (mean)", gpu.get("util_mean_pct"), fig.pct),
        ("GPU memory at most", gpu.get("mem_peak_bytes"), lambda value: fig.gib(value) + " GiB"),
    ]
    tiles = [
        tag("div", f"<b>{esc(show(value))}</b><span>{esc(name)}</span>", "tile")
        for name, value, show in known
        if value is not None
    ]
    return tag("div", "".join(tiles), "tiles") if tiles else ""


def phase_class(name: str) -> str:
    """The class that colours a phase; the script's own phases share one."""
    return f"p-{name}" if name in BAR else "p-user"


def _ledger(run: Json, of: str) -> str:
    known = {name: pct for name, pct in run["phases_pct"].items() if pct is not None}
    if not known:
        return ""
    left, bars = 0.0, []
    for name, pct in known.items():
        bars.append(
            f'<rect class="{phase_class(name)}" x="{left:.3f}" y="0" width="{pct:.3f}" height="10">'
            f"<title>{esc(name)} {esc(fig.pct(pct))}</title></rect>"
        )
        left += pct
    drawing = (
        '<svg class="ledger" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" '
        f'aria-label="Shares of step time">{"".join(bars)}</svg>'
    )
    rows = [["phase", "share"]]
    for name, pct in known.items():
        swatch = f'<svg class="swatch" viewBox="0 0 1 1" aria-hidden="true"><rect class="{phase_class(name)}" '
        swatch += f'width="1" height="1"/></svg>{esc(words.PHASES.get(name, name))}'
        rows.append([swatch, fig.pct(pct)])
    clock = f" ({run['clock']} clock)" if run["clock"] else ""
    return tag("h3", esc(f"Where the time went{of}{clock}")) + drawing + grid(rows, (1,), raw=0)


def _steps(run: Json, of: str) -> str:
    steady, every = run["steady_ms"], run["step_ms"]
    if every["max"] is None:
        return ""
    rows = [["", "p50", "p95", "p99", "longest"]]
    for name, spread in (("steady steps", steady), ("every step", every)):
        if spread["max"] is not None:
            rows.append(
                [name, *(NONE if spread[q] is None else fig.ms(spread[q]) for q in ("p50", "p95", "p99", "max"))]
            )
    apart = steady["warmup_steps"] + steady["epoch_firsts"]
    caption = (
        f"steady: without {steady['warmup_steps']} of warm-up and {steady['epoch_firsts']} that opened a later epoch"
        if apart
        else ""
    )
    return tag("h3", esc(f"Step time{of}")) + grid(rows, (1, 2, 3, 4), caption)


def _episodes(run: Json) -> str:
    if not run["episodes"]:
        return ""
    texts = [f"{words.EPISODES.get(one['kind'], one['kind'])}: {words.episode_words(one)}" for one in run["episodes"]]
    return tag("h3", "What comes now and then") + items(texts, "notes")


def _epochs(run: Json) -> str:
    rows = epoch_rows(run, EPOCHS_SHOWN)
    if len(rows) < 2:
        return ""
    table = grid(rows, range(5))
    if len(rows) > 9:
        return f"<details><summary>{run['epochs_total']} epochs</summary>{table}</details>"
    return tag("h3", "Epochs") + table


def _ranks(members: Sequence[Json], job: Json) -> str:
    rows = rank_rows(members, job)
    odd = [number for number, row in enumerate(rows[1:]) if row[-1].endswith(" *")]
    why = items((f"rank {one['rank']} differs: {one['why']}" for one in job["outliers"][:16]), "notes")
    return tag("h3", f"{len(members)} ranks") + grid(rows, range(6), odd=odd, optional=(1, 3)) + why


def _over(run: Json) -> str:
    if len(run["causes_pct"]) < 2:
        return ""
    shares = sorted(run["causes_pct"].items(), key=lambda item: -item[1])
    rows = [["verdict", "of the judged time"], *([cause, fig.pct(pct)] for cause, pct in shares)]
    return tag("h3", "What held over the run") + grid(rows, (1,))


def _notes(run: Json) -> str:
    out = items(run["notices"], "notes")
    if run["said_differs"]:
        rows = [["from", "for", "said then", "today's rules say"]]
        for one in run["said_differs"][:12]:
            length = fig.span((one["to_ns"] - one["from_ns"]) / 1e9)
            rows.append([fig.moment(one["from_ns"]), length, one["said"], one["cause"]])
        share = fig.pct(run["said_differs_pct"])
        out += grid(rows, (), f"for {share} of the run, today's rules say otherwise than gputop did at the time")
    return tag("h3", "Worth knowing") + out if out else ""


def machine_section(report: Json) -> str:
    """GPUs, machines, samplers' troubles and warnings."""
    parts = []
    if report["gpus"]:
        rows = [["GPU", "used (mean)", "at most", "memory at most", "power (mean)", "at most", "hottest", "throttled"]]
        rows += [_gpu(gpu) for gpu in report["gpus"]]
        parts.append(tag("h2", "GPUs") + grid(rows, range(1, 8), optional=(2, 4, 5, 6)))
    if report["hosts"]:
        rows = [["machine", "CPU (mean)", "at most", "iowait", "memory at most"]]
        rows += [_host(host) for host in report["hosts"]]
        parts.append(tag("h2", "Machines") + grid(rows, range(1, 5), optional=(2, 3)))
    troubles = [
        f"{one['backend']}: {one['state']}" + (f": {one['why']}" if one["why"] else "")
        for one in report["samplers"]
        if one["state"] != "ok"
    ]
    notes = items([*troubles, *report["warnings"]], "notes")
    if notes:
        parts.append(tag("h2", "Warnings") + notes)
    return "\n".join(parts)


def _shown(value: float | None, show: str, scale: float = 1.0) -> str:
    return NONE if value is None else show.format(value * scale)


def _gpu(gpu: Json) -> list[str]:
    total = f" of {gpu['mem_total_bytes'] / fig.GIB:.0f}" if gpu["mem_total_bytes"] else ""
    limit = f" of {gpu['power_limit_w']:.0f}" if gpu["power_limit_w"] else ""
    index = "?" if gpu["gpu_index"] is None else gpu["gpu_index"]
    return [
        f"{index} {gpu['name'] or 'unknown model'}" + (" (lost)" if gpu["lost"] else ""),
        NONE if gpu["util_mean_pct"] is None else fig.pct(gpu["util_mean_pct"]),
        NONE if gpu["util_max_pct"] is None else fig.pct(gpu["util_max_pct"]),
        NONE if gpu["mem_peak_bytes"] is None else f"{fig.gib(gpu['mem_peak_bytes'])}{total} GiB",
        _shown(gpu["power_mean_w"], "{:.0f} W"),
        NONE if gpu["power_max_w"] is None else f"{gpu['power_max_w']:.0f}{limit} W",
        _shown(gpu["temp_max_c"], "{:.0f} °C"),
        NONE if gpu["throttled_pct"] is None else fig.pct(gpu["throttled_pct"]),
    ]


def _host(host: Json) -> list[str]:
    cores = f" of {host['cores']} cores" if host["cores"] else ""
    total = f" of {host['mem_total_bytes'] / fig.GIB:.0f}" if host["mem_total_bytes"] else ""
    return [
        host["host"] or "unknown",
        NONE if host["cpu_mean_pct"] is None else fig.pct(host["cpu_mean_pct"]) + cores,
        NONE if host["cpu_max_pct"] is None else fig.pct(host["cpu_max_pct"]),
        NONE if host["iowait_mean_pct"] is None else fig.pct(host["iowait_mean_pct"]),
        NONE if host["mem_peak_bytes"] is None else f"{fig.gib(host['mem_peak_bytes'])}{total} GiB",
    ]


def time_section(report: Json, series: Series) -> str:
    """What the charts show, as a table for each job's leading run, and the events."""
    runs = {run["run_id"]: run for run in report["runs"]}
    parts, names = [], words.names(report)
    for job in report["jobs"]:
        rows = _moments(runs[job["lead"]], series)
        if len(rows) > 1:
            name = esc(names[job["lead"]] + ("" if len(job["run_ids"]) == 1 else ", leading rank"))
            table = grid(rows, (1, 2, 3, 4, 5), optional=(2, 3))
            parts.append(f"<details><summary>Over time as a table: {name}</summary>{table}</details>")
    events = report["events"]
    if events:
        rows = [["when", "what", ""]]
        rows += [[fig.moment(one["t_ns"]), one["kind"], one["label"] or ""] for one in events[:EVENTS_SHOWN]]
        more = f" (the first {EVENTS_SHOWN})" if len(events) > EVENTS_SHOWN else ""
        parts.append(f"<details><summary>Events{more}</summary>{grid(rows, ())}</details>")
    return "\n".join(parts)


def _moments(run: Json, series: Series) -> list[list[str]]:
    mine = series.runs.get(run["run_id"])
    if mine is None or not any(value is not None for value in mine.high):
        return []
    uuid = (run["gpu"] or {}).get("uuid")
    gpu = series.gpus.get(uuid) if uuid else None
    axis = series.axis
    stride = -(-axis.columns // MOMENTS)
    rows = [["from", "step (median)", "shortest", "longest", "waiting for data", "GPU used", "verdict"]]
    for first in range(0, axis.columns, stride):
        part = slice(first, first + stride)
        at = axis.from_ns + (first + min(stride, axis.columns - first) // 2) * axis.width_ns
        cause = next((one["cause"] for one in run["timeline"] if one["from_ns"] <= at < one["to_ns"]), NONE)
        p50, data = _mean(mine.p50[part]), _mean(mine.phases.get("data", ())[part])
        used = _mean(gpu.util[part]) if gpu else None
        rows.append(
            [
                fig.moment(axis.from_ns + first * axis.width_ns),
                NONE if p50 is None else fig.ms(p50),
                *(NONE if one is None else fig.ms(one) for one in _ends(mine.low[part], mine.high[part])),
                NONE if data is None else fig.pct(data),
                NONE if used is None else fig.pct(used),
                cause,
            ]
        )
    return rows


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _ends(low: Sequence[float | None], high: Sequence[float | None]) -> tuple[float | None, float | None]:
    return (
        min((value for value in low if value is not None), default=None),
        max((value for value in high if value is not None), default=None),
    )
