"""The causes, one module each: `ID`, `FAMILY`, named thresholds and `examine(facts)`. To add one, add its file here.

`STEADY` are examined side by side and ranked; states (stalled, warm-up, idle, unknown) are asked for by the verdict.
"""

from __future__ import annotations

from collections.abc import Callable

from gputop.diagnosis.candidate import Candidate
from gputop.diagnosis.causes import (
    checkpoint,
    comm_bound,
    cpu_bound,
    cpu_fallback,
    evaluation,
    gpu_bound,
    gpu_contention,
    h2d_link,
    h2d_pageable,
    host_contention,
    host_work,
    idle,
    input_cpu,
    input_disk,
    input_oversubscribed,
    input_restart,
    input_slow_sample,
    input_transfer,
    input_workers,
    launch_bound,
    memory_pressure,
    optimizer,
    small_model,
    stalled,
    straggler,
    sync,
    throttled,
    unknown,
    warmup,
)
from gputop.diagnosis.evidence import Facts

RANKED = (
    input_workers, input_cpu, input_disk, input_oversubscribed, input_slow_sample, input_transfer, input_restart,
    h2d_pageable, h2d_link, host_work, launch_bound, small_model, sync, optimizer, host_contention, cpu_fallback,
    cpu_bound, gpu_bound, throttled, memory_pressure, gpu_contention, straggler, comm_bound, evaluation, checkpoint,
    warmup,
)  # fmt: skip
"""Causes that are weighed against each other; of two that score the same, the earlier one wins."""

STATES = (stalled, idle, unknown)
"""States of a run, which the verdict asks for by themselves."""

EXAMINE: tuple[Callable[[Facts], Candidate | None], ...] = tuple(module.examine for module in RANKED)
"""How each ranked cause is examined, in order."""

FAMILIES: dict[str, str] = {module.ID: module.FAMILY for module in (*RANKED, *STATES)}
"""The family of every cause by its id."""

IDS: tuple[str, ...] = tuple(FAMILIES)
"""The ids of all causes."""
