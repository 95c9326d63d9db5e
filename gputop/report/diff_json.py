"""A comparison as JSON: keys are promises, an unknown figure is null, numbers are numbers."""

from __future__ import annotations

from typing import Any

from gputop.report.diff import Comparison
from gputop.report.diff_noise import Ratio
from gputop.report.diff_sentence import sentence
from gputop.report.diff_side import Side
from gputop.report.summary import full

SCHEMA = 1
"""Version of this JSON; keys may be added within one, never change meaning."""

Json = dict[str, Any]


def of_comparison(found: Comparison) -> Json:
    """The comparison with all its figures."""
    answer: Json = {
        "schema": SCHEMA,
        "sentence": sentence(found),
        "compared": found.unit,
        "beyond_noise": found.mean.differs if found.mean is not None else None,
        "throughput_change_pct": found.change_pct,
        "time_ratio": _ratio(found.mean),
        "median_ratio": _ratio(found.typical),
        "why_not": found.why_not,
        "a": _side(found.a),
        "b": _side(found.b),
        "ledger": list(found.ledger),
        "changes": list(found.changes),
        "ranks": list(found.ranks),
        "warnings": list(found.warnings),
    }
    complete: Json = full(answer)
    return complete


def _ratio(ratio: Ratio | None) -> Json | None:
    if ratio is None:
        return None
    return {"value": ratio.ratio, "low": ratio.low, "high": ratio.high, "beyond_noise": ratio.differs}


def _side(side: Side) -> Json:
    run, figures = side.run, side.figures
    return {
        "source": side.source,
        "run_id": run.run_id,
        "script": run.script,
        "rank": run.rank,
        "world_size": run.world_size,
        "simulated": side.simulated,
        "steps": figures.steps,
        "steady_steps": figures.steady_steps,
        "warmup_steps": figures.warmup_steps,
        "epoch_starts": figures.epoch_starts,
        "epoch_start_ms": figures.epoch_start_ms,
        "step_ms": {
            "mean": figures.mean_ms,
            **{name: figures.step_ms.get(name) for name in ("p50", "p95", "p99", "max")},
        },
        "exact": figures.exact,
        "batch": figures.batch,
        "job_batch": side.job_batch,
        "steps_per_s": figures.steps_per_s,
        "samples_per_s": figures.samples_per_s,
        "gpu": _gpu(side),
        "verdict": side.verdict,
    }


def _gpu(side: Side) -> Json | None:
    if side.gpu is None and side.gpu_name is None:
        return None
    gpu = side.gpu
    return {
        "name": side.gpu_name,
        "util_mean_pct": gpu.util_mean_pct if gpu is not None else None,
        "mem_peak_bytes": gpu.mem_peak_bytes if gpu is not None else None,
        "mem_total_bytes": side.gpu_mem_total_bytes,
        "power_mean_w": gpu.power_mean_w if gpu is not None else None,
    }
