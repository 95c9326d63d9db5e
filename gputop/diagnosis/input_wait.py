"""The wait for data, as far as it holds the run back, and what every cause of one asks of it."""

from __future__ import annotations

from math import ceil

import msgspec

from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.loop import Shape, shape

ENTER_PCT = 10.0
"""Percent of the step lost to waiting for data from which it is worth naming (published rules warn at 5 to 20)."""

NOTICE_PCT = 5.0
"""Percent from which it is examined at all: the verdict in force may hold below the threshold of entering."""

HANDOVER_MS = 1.5
"""What taking a ready batch from worker processes costs at most, in ms (measured 1.0 to 1.4 with two workers)."""

FREE_SHARE = 0.25
"""Share of the usable cores that must be idle for more workers to find room."""

BUSY_WORKER_PCT = 85.0
"""CPU of one worker (one core = 100) from which it computes all the time instead of waiting for something."""

IDLE_WORKER_PCT = 50.0
"""CPU of one worker below which it mostly waits."""


class InputWait(msgspec.Struct, frozen=True, kw_only=True):
    """Time lost to waiting for data. `needed`: workers that would keep up; `workers` None: not known.

    `batch_ms` is the worker time that one batch takes (with no workers: the fetch itself). `ready_share`: share of the
    waiting steps in which batches lay ready; `late_share`: in which later batches were ready and this one was not.
    """

    lost_pct: float
    wait_ms: float
    step_ms: float
    shape: Shape
    workers: int | None
    batch_ms: float | None
    needed: int | None
    ready_share: float | None
    late_share: float | None
    free_share: float | None


def input_wait(facts: Facts) -> InputWait | None:
    """The wait for data; None where it is not worth a look."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None:
        return None
    form = shape(loop, "data")
    workers = facts.loader.num_workers if facts.loader else None
    if workers is None:
        workers = facts.machine.workers
    share = lost.pct("data")
    if lost.source != "device" and workers:
        share = max(0.0, share - 100 * min(HANDOVER_MS, form.p10_ms) / loop.mean_ms)
    if share < NOTICE_PCT:
        return None
    wait = loop.ms("data")
    batch = None if workers is None else wait if workers == 0 else workers * loop.mean_ms
    left = loop.mean_ms - loop.ms("eval") - loop.ms("checkpoint") - wait
    return InputWait(
        lost_pct=share,
        wait_ms=wait,
        step_ms=loop.mean_ms,
        shape=form,
        workers=workers,
        batch_ms=batch,
        needed=_needed(batch, left, loop.mean_ms),
        ready_share=_share_of_waits(facts, form, late=False),
        late_share=_share_of_waits(facts, form, late=True),
        free_share=free_share(facts),
    )


def free_share(facts: Facts) -> float | None:
    """Share of the cores that the run may use which nobody uses."""
    machine = facts.machine
    return machine.free_cores / machine.cores if machine.free_cores is not None and machine.cores else None


MOST_WORKERS = 999
"""A wait that leaves almost nothing of the step would ask for absurdly many workers: more than this is no advice."""


def _needed(batch_ms: float | None, left_ms: float, step_ms: float) -> int | None:
    """Workers that keep up: worker time per batch over the step's time without the wait, rounded up."""
    if batch_ms is None or left_ms <= 0.001 * step_ms:
        return None
    needed = ceil(batch_ms / left_ms - 1e-9)
    return needed if needed <= MOST_WORKERS else None


def _share_of_waits(facts: Facts, form: Shape, *, late: bool) -> float | None:
    """Of the steps that really waited, the share in which batches lay ready (`late`: later ones than the awaited)."""
    loop = facts.loop
    column = loop.roles.get("data") if loop else None
    if loop is None or column is None:
        return None
    bar = max(HANDOVER_MS, 0.5 * form.median_ms if form.steady else 3 * form.median_ms)
    flags = []
    for step, wait in zip(loop.steps, column, strict=True):
        ready = step.late_ready if late else step.ready_batches
        if wait > bar and ready is not None:
            flags.append(ready > 0)
    return sum(flags) / len(flags) if flags else None


def waits(wait: InputWait) -> str:
    """The wait in words: its part of the step, and its beat where it has one."""
    from gputop.diagnosis.wording import of_step, pct, time

    text = f"{of_step(wait.wait_ms, wait.step_ms)} per step ({pct(wait.lost_pct)}) waits for data"
    form = wait.shape
    if not form.steady and form.period and form.period > 1:
        text += f", {time(form.long_ms)} every {form.period} steps"
    return text


def loader_code(facts: Facts, **changes: object) -> str:
    """The loader's call as it would be with `changes`, showing what is set already where that is known."""
    loader = facts.loader
    shown: dict[str, object] = {}
    if loader is not None and loader.batch_size is not None:
        shown["batch_size"] = loader.batch_size
    shown |= changes
    return "DataLoader(dataset, " + ", ".join(f"{name}={value!r}" for name, value in shown.items()) + ")"
