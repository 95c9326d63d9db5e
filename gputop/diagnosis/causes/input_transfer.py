"""Batches are ready, but handing them to the training thread is slow: pickling, shared memory, pinning, collating."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import PINNING_PCT, READY_SHARE, delivered, pinning
from gputop.diagnosis.input_wait import (
    ENTER_PCT,
    HANDOVER_MS,
    IDLE_WORKER_PCT,
    input_wait,
    loader_code,
    waits,
)
from gputop.records import Advice

ID = "input-transfer"
FAMILY = "input"

SLOW_HANDOVER_MS = 5.0
"""Wait for a ready batch from which handing over is slow (a pinning thread's queue gives one in under 5 ms)."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the wait is for a batch that is there already: by the loader's own queue, or by who is at work."""
    wait = input_wait(facts)
    if wait is None:
        return None
    beside, there = pinning(facts, wait), delivered(facts, wait)
    if beside is None and not there:
        return None
    case = Case(facts)
    case.at_least("step time lost waiting for data", wait.lost_pct, ENTER_PCT, "%", "steps")
    if there and wait.ready_share is not None:
        case.at_least("waits with batches ready", 100 * wait.ready_share, 100 * READY_SHARE, "%", "steps", 3.0)
    case.at_least("CPU of the process beside its main thread", beside, PINNING_PCT, "%", "process", 2.0)
    if beside is not None:
        case.at_most("CPU of each worker", facts.machine.worker_pct, IDLE_WORKER_PCT, "%", "process")
    case.at_least("shortest usual wait", wait.shape.p10_ms, min(SLOW_HANDOVER_MS, 2 * HANDOVER_MS), "ms", "steps")
    meanwhile = (
        "although batches lie ready"
        if there
        else "while the workers rest and one thread that unpickles and pins does not"
    )
    pinned = facts.loader.pin_memory if facts.loader else None
    advice = []
    if pinned is False and facts.device.on_gpu:
        advice.append(
            Advice(
                do="pin_memory False → True",
                why="a background thread then takes batches off the workers' queue",
                code=loader_code(facts, pin_memory=True),
            )
        )
    advice.append(
        Advice(
            do="hand over fewer and smaller objects: tensors instead of lists and dicts, uint8 instead of float32",
            why="one thread of the training process unpickles each object",
        )
    )
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=wait.lost_pct,
        fit=case.fit,
        headline=f"{waits(wait)} {meanwhile}: handing one over is what takes the time",
        evidence=case.evidence,
        advice=advice,
        speedup_limit=speedup(wait.lost_pct),
    )
