"""Idle time in the phases that launch work: what launch-bound, small-model, optimizer and sync are weighed by."""

from __future__ import annotations

import msgspec

from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.phases import COMPUTE, HOST
from gputop.records import Advice, Model

MANY_READS = 4
"""Reads of device values in a step from which they, and not the loop's own work between them, keep the queue empty."""

APART_PCT = 20.0
"""Percent of the step's host time in the update from which an unfused one of many tensors is a matter of its own."""

MANY_TENSORS = 100
"""Parameter tensors from which updating them one by one shows (150 tensors cost 138 ms of CPU for 13 ms of GPU)."""


class Launching(msgspec.Struct, frozen=True, kw_only=True):
    """Lost device time in launching phases, percent of the step. `sync_pct` of it would go without reading values back.

    `sync_ms` and `syncs` are host time and number of such reads per step; where only the number of many is known, all
    of the idle time may be theirs. `follow` is device time over host time in forward and backward: near 1, the device
    follows the host call by call. `upper`: the figures are upper bounds.
    """

    forward_pct: float
    optimizer_pct: float
    sync_pct: float
    sync_ms: float | None
    syncs: float | None
    follow: float | None
    upper: bool
    estimated: bool
    update_apart: bool

    @property
    def rest_pct(self) -> float:
        """What remains for launching itself, once the reads are accounted for."""
        return max(0.0, self.forward_pct + self.optimizer_pct - self.sync_pct)


FUSED = frozenset(("Adam", "AdamW", "SGD", "Adagrad"))
"""Optimizers of PyTorch that have a fused update."""

COMPILED_UPDATE = "@torch.compile(fullgraph=False)\ndef update():\n    optimizer.step()"
"""How any optimizer updates in few launches."""


def fused_update(model: Model | None) -> Advice:
    """How to update in few launches: the fused optimizer where there is one, else a compiled step."""
    name = (model.optimizer if model else None) or "AdamW"
    many = model.param_tensors if model and model.param_tensors else "many"
    if name in FUSED:
        return Advice(
            do=f"use the fused {name}",
            why=f"{many} parameter tensors are updated in one launch",
            code=f"optimizer = torch.optim.{name}(model.parameters(), lr=lr, fused=True)",
        )
    return Advice(
        do=f"compile the update, as {name} has no fused one",
        why=f"{many} parameter tensors are then updated in few launches",
        code=COMPILED_UPDATE,
    )


@once
def launching(facts: Facts) -> Launching | None:
    """Idle time where work is launched; None for a run that is not on a GPU, or without any figure of the device."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None or not facts.device.on_gpu or lost.total_pct is None:
        return None
    forward = lost.pct("forward") + lost.pct("backward") + (lost.pct("host") if loop.opaque else 0.0)
    optimizer = lost.pct("optimizer")
    counts = [step.sync_count for step in loop.steps if step.sync_count is not None]
    times = [step.sync_ns for step in loop.steps if step.sync_ns is not None]
    marked = loop.ms("sync")
    sync_ms = marked or (sum(times) / len(times) / 1e6 if times else None if counts else 0.0)
    if (lost.source == "nvml" or "optimizer" in lost.behind) and _unfused(facts):
        idle = forward + optimizer
        optimizer = min(idle, loop.pct("optimizer"))
        forward = idle - optimizer
    syncs = sum(counts) / len(counts) if counts else None
    bubbles = forward + optimizer + lost.pct("sync")
    many = (syncs or 0.0) >= MANY_READS
    if many and (sync_ms or 0.0) >= loop.ms(HOST):
        bubbles += lost.pct(HOST)
    host = loop.ms("forward") + loop.ms("backward")
    on_device = lost.device_ms.get("forward", 0.0) + lost.device_ms.get("backward", 0.0)
    return Launching(
        forward_pct=forward,
        optimizer_pct=optimizer,
        sync_pct=(bubbles if many else 0.0) if sync_ms is None else min(100 * sync_ms / loop.mean_ms, bubbles),
        sync_ms=sync_ms,
        syncs=syncs,
        follow=on_device / host if host and on_device else None,
        upper=bool(lost.upper.intersection(COMPUTE)) or (many and sync_ms is None),
        estimated=bool(lost.estimated.intersection(COMPUTE)),
        update_apart=optimizer > forward or _unfused(facts),
    )


def _unfused(facts: Facts) -> bool:
    """Whether a large update goes tensor by tensor."""
    model, loop = facts.window.model, facts.loop
    if model is None or loop is None or model.optimizer_fused or loop.pct("optimizer") < APART_PCT:
        return False
    return (model.param_tensors or 0) >= MANY_TENSORS
