"""The JSON of `once` and `report`: keys are promises, an unknown figure is null, numbers are numbers."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from gputop.records import Gpu
from gputop.report import hindsight
from gputop.report.account import Account, Epoch, GpuAccount, Spread
from gputop.report.jobs import jobs
from gputop.report.judged import Judged, RunReport, report_on
from gputop.view import GpuView, RunView, Segment, View

SCHEMA = 1
"""Version of this JSON; keys may be added within one, never change meaning."""

MAX_DEPTH = 16
"""Nesting beyond this is no figure."""

MAX_EPOCHS = 400
"""Epochs listed for a run."""

CANONICAL = ("data", "h2d", "forward", "backward", "optimizer")
"""Phases that are always listed, null when they were never observed."""

Json = dict[str, Any]


def of_view(view: View, *, from_ns: int, cmdlines: bool = True) -> Json:
    """What a live look found."""
    runs = [_run(run, view, report_on(run.run.run_id, run.verdict, run.segments)) for run in view.runs]
    return _frame(view, runs, from_ns, view.now_ns, cmdlines)


def of_trace(judged: Judged, warnings: tuple[str, ...] = (), *, cmdlines: bool = True) -> Json:
    """What a whole trace holds: figures over all of it, verdicts over time."""
    view = judged.view(warnings)
    runs = []
    for run in sorted(view.runs, key=lambda run: run.run.run_id not in judged.meant):
        report = judged.runs[run.run.run_id]
        figures = _run(run, view, report)
        figures.update(_whole(judged.accounts.get(run.run.run_id, Account())))
        figures.update(_then_and_now(report))
        figures["recorded_for"] = run.run.run_id in judged.meant if judged.meant else None
        if figures["gpu"] is not None:
            figures["gpu"].update(full(judged.gpus.get(figures["gpu"]["uuid"], GpuAccount())))
        runs.append(figures)
    frame = _frame(view, runs, judged.from_ns, judged.to_ns, cmdlines)
    for gpu in frame["gpus"]:
        gpu.update(full(judged.gpus.get(gpu["gpu_uuid"], GpuAccount())))
    frame["hosts"] = [full(host) for host in judged.hosts.values()]
    frame["jobs"] = full(jobs(runs))
    frame["events"] = [full(mark) for mark in judged.series.marks]
    frame["sampled"] = judged.sampled
    frame["judgements"] = judged.judgements
    return frame


def full(value: Any, depth: int = 0) -> Any:
    """A record as JSON's own types with every field present, unknown ones null, no NaN, nothing nested without end."""
    if depth > MAX_DEPTH:
        return None
    if isinstance(value, msgspec.Struct):
        return {name: full(getattr(value, name), depth + 1) for name in value.__struct_fields__}
    if isinstance(value, dict):
        return {str(key): full(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [full(one, depth + 1) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _frame(view: View, runs: list[Json], from_ns: int, to_ns: int, cmdlines: bool) -> Json:
    return {
        "schema": SCHEMA,
        "source": view.source,
        "from_ns": from_ns,
        "to_ns": to_ns,
        "simulated": view.simulated,
        "runs": runs,
        "gpus": [_gpu(gpu, cmdlines) for gpu in view.gpus],
        "host": full(view.host.host) if view.host is not None else None,
        "samplers": [full(sampler) for sampler in view.samplers],
        "warnings": list(view.warnings),
    }


def _run(run: RunView, view: View, report: RunReport) -> Json:
    known = {share.phase: share.pct for share in run.ledger}
    return {
        "run_id": run.run.run_id,
        "script": run.run.script,
        "pid": run.run.pid or None,
        "rank": run.run.rank,
        "world_size": run.run.world_size,
        "device": run.run.device,
        "framework": run.run.framework,
        "state": run.state,
        "steps": run.steps_total,
        "step_ms": full(run.step_ms) or {"p50": None, "p95": None, "max": None},
        "steps_per_s": full(run.steps_per_s),
        "samples_per_s": full(run.samples_per_s),
        "phases_pct": _phases(known),
        "gpu": _run_gpu(run, view),
        "clock": run.clock,
        "gaps": run.gaps,
        "dropped": run.dropped,
        "verdict": full(report.verdict),
        "timeline": [_segment(segment) for segment in report.segments],
        "causes_pct": full(report.causes_pct),
    }


def _whole(account: Account) -> Json:
    """Figures over a run's whole length, in place of those of its last window."""
    whole: Json = {
        "from_ns": account.from_ns,
        "to_ns": account.to_ns,
        "step_ms": _spread(account.every),
        "steady_ms": _steady(account),
        "epochs_total": len(account.epochs),
        "epochs": [_epoch(epoch) for epoch in _some(account.epochs)],
        "episodes": [full(episode) for episode in account.episodes],
    }
    if not account.steps or account.train_ns <= 0:
        return whole
    span_s = ((account.to_ns or 0) - (account.from_ns or 0)) / 1e9
    named = {name: 100 * ns / account.train_ns for name, ns in account.phases_ns.items()}
    named["other"] = max(0.0, 100 - sum(named.values()))
    return {
        **whole,
        "steps": account.steps,
        "steps_per_s": account.steps / span_s if span_s > 0 else None,
        "samples_per_s": account.samples / span_s if span_s > 0 and account.samples else None,
        "phases_pct": _phases(named),
    }


def _spread(spread: Spread | None) -> Json:
    if spread is None:
        return {"p50": None, "p95": None, "p99": None, "max": None}
    return {"p50": spread.p50, "p95": spread.p95, "p99": spread.p99, "max": spread.max}


def _steady(account: Account) -> Json:
    return {
        **_spread(account.steady),
        "steps": account.steady.steps if account.steady else 0,
        "warmup_steps": account.warmup_steps,
        "epoch_firsts": account.epoch_firsts,
    }


def _some(epochs: tuple[Epoch, ...]) -> tuple[Epoch, ...]:
    """The epochs that are listed: of very many, the first and the last ones."""
    if len(epochs) <= MAX_EPOCHS:
        return epochs
    return (*epochs[: MAX_EPOCHS // 2], *epochs[-MAX_EPOCHS // 2 :])


def _epoch(epoch: Epoch) -> Json:
    return {**full(epoch), "steps_per_s": full(epoch.steps_per_s)}


def _then_and_now(report: RunReport) -> Json:
    """What was said at the time, and where today's rules say something else."""
    return {
        "notices": list(report.notices),
        "said": [_segment(segment) for segment in report.said],
        "said_differs": full(report.differs),
        "said_differs_pct": hindsight.share_pct(report.differs, report.segments) if report.said else None,
    }


def _phases(known: dict[str, float]) -> Json:
    phases: Json = {name: known.get(name) for name in CANONICAL}
    phases.update({name: pct for name, pct in known.items() if name not in CANONICAL and name != "other"})
    phases["other"] = known.get("other")
    return phases


def _run_gpu(run: RunView, view: View) -> Json | None:
    found = next((gpu for gpu in view.gpus if gpu.gpu.gpu_uuid == run.gpu_uuid), None)
    if found is None:
        return None
    window = [value for value in found.util_history[-_columns(view) :] if value is not None]
    util = sum(window) / len(window) if window else found.gpu.util_pct
    return {
        "uuid": found.gpu.gpu_uuid,
        "name": found.gpu.name,
        "match": run.gpu_match,
        "util_pct": full(util),
        "idle_pct": full(100 - util) if util is not None else None,
        "mem_used_bytes": found.gpu.mem_used_bytes,
        "mem_total_bytes": found.gpu.mem_total_bytes,
    }


def _columns(view: View) -> int:
    """Columns of the last ten seconds."""
    return max(1, round(10e9 / view.column_ns))


def _gpu(gpu: GpuView, cmdlines: bool) -> Json:
    record: Gpu = gpu.gpu
    figures: Json = full(record)
    if not cmdlines:
        for process in figures["processes"] or []:
            process["cmdline"] = None
            process["user"] = None
    figures["age_ns"] = gpu.age_ns
    figures["burst_note"] = gpu.burst_note
    return figures


def _segment(segment: Segment) -> Json:
    return {"from_ns": segment.from_ns, "to_ns": segment.to_ns, "cause": segment.cause}
