"""The update is bound by dispatch: many small tensors, an optimizer that is not fused."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.launching import COMPILED_UPDATE, MANY_TENSORS, fused_update, launching
from gputop.diagnosis.wording import cost, count
from gputop.records import Advice

ID = "optimizer"
FAMILY = "host"

ENTER_PCT = 10.0
"""Percent of the step that the device idles in the update from which it is worth naming."""

HOST_PCT = 20.0
"""Percent of the step on the host's clock from which, without device figures, the update may be the limit."""

BUSY_THREAD_PCT = 85.0
"""CPU of the training thread (one core = 100) from which it is dispatching rather than waiting."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the device idles while the optimizer's many small operations are dispatched."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None or facts.device.on_gpu is False:
        return None
    idle = launching(facts)
    share = idle.optimizer_pct if idle is not None else loop.pct("optimizer")
    if share < (ENTER_PCT / 2 if idle is not None else HOST_PCT) or (idle is not None and not idle.update_apart):
        return None
    case = Case(facts)
    bar = ENTER_PCT if idle is not None else HOST_PCT
    case.at_least("step time lost in the update", share, bar, "%", lost.source, 1.5)
    if idle is None:
        case.missing(2.0)
    host, device = loop.ms("optimizer"), lost.device_ms.get("optimizer")
    if device is not None and host:
        case.at_most("device time over host time in the update", device / host, 1.2, "", "device", 0.5)
    model = facts.window.model
    tensors = model.param_tensors if model else None
    case.at_least("parameter tensors", None if tensors is None else float(tensors), MANY_TENSORS, "", "model")
    if model is not None and model.optimizer_fused is not None:
        case.weigh("fused optimizer", str(model.optimizer_fused), not model.optimizer_fused, None, "model", 1.5)
    case.at_least("CPU of the training thread", facts.machine.main_pct, BUSY_THREAD_PCT, "%", "process", 0.5)
    many = f" of {count(tensors, 'tensor')}" if tensors else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"the optimizer's update{many} is bound by dispatch: on the host it takes "
        f"{cost(host, loop.mean_ms, share, on_gpu=True)}",
        evidence=case.evidence,
        advice=_advice(facts),
        speedup_limit=_gain(facts, share),
        estimated=idle is None or idle.estimated,
        upper=idle is not None and idle.upper,
    )


def _gain(facts: Facts, share: float) -> float | None:
    """What an update in one launch could gain: its host time goes, down to what host and device do in the others.

    Its many kernels go with their launches, so this may be more than the idle time between them.
    """
    loop, lost = facts.loop, facts.lost
    assert loop is not None
    assert lost is not None
    model = facts.window.model
    if "optimizer" not in lost.behind or model is None or model.optimizer_fused is not False:
        return speedup(share)
    on_host = loop.mean_ms - loop.ms("optimizer")
    on_device = sum(ms for part, ms in lost.device_ms.items() if part != "optimizer")
    return speedup(100.0, max(100 - loop.pct("optimizer"), 100 * max(on_host, on_device) / loop.mean_ms))


def _advice(facts: Facts) -> list[Advice]:
    model = facts.window.model
    compiled = Advice(
        do="or compile the update, or step less often by accumulating gradients",
        why="the cost is per update and per tensor, not per sample",
        code=COMPILED_UPDATE,
    )
    if model is not None and model.optimizer_fused:
        return [compiled]
    first = fused_update(model)
    return [first] if first.code == compiled.code else [first, compiled]
