"""There is no GPU here, and the CPU's own compute is the limit."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts, batches_unseen
from gputop.diagnosis.interpreter import pool_waits
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "cpu-bound"
FAMILY = "placement"

COMPUTE_PCT = 50.0
"""Percent of the step in forward, backward and optimizer from which the model's own computing is the limit."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the step's own computing on a CPU takes the time, on a machine without a GPU."""
    loop, device = facts.loop, facts.device
    if loop is None or device.on_gpu is not False or device.gpus_present:
        return None
    training = max(1e-9, 100 - loop.episodic_pct())
    compute = loop.compute_pct()
    case = Case(facts)
    case.at_least(
        "step time in forward, backward and optimizer", 100 * compute / training, COMPUTE_PCT, "%", "steps", 2.0
    )
    if device.gpus_present is None:
        case.missing(1.0)
    else:
        case.weigh("GPUs in this machine", 0.0, True, "", "driver", 1.0, 0.0)
    if loop.opaque or batches_unseen(facts):
        case.missing(2.0)
    where = "" if device.gpus_present is None else "no GPU in this machine: "
    cores = f" on {count(facts.machine.cores, 'core')}" if facts.machine.cores else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=compute,
        fit=case.fit,
        headline=f"{where}the CPU's own computing is the limit, {pct(compute)} of a {time(loop.mean_ms)} step{cores}",
        evidence=case.evidence,
        advice=_advice(facts),
        healthy=True,
    )


def _advice(facts: Facts) -> list[Advice]:
    model = facts.window.model
    advice = [Advice(do="run it where a GPU is", why="the loop itself is in order; computing is what takes the time")]
    if model is None or not model.compiled:
        advice.append(
            Advice(do="or compile the model", why="fuses operators for the CPU", code="model = torch.compile(model)")
        )
    cores = facts.machine.cores
    if cores and pool_waits(facts):
        fewer = Advice(
            do=f"let operators use {count(cores, 'thread')}, as many as there are cores",
            why="with more, each operator ends only when the last of its threads has had a turn on a core",
            code=f"torch.set_num_threads({max(1, int(cores))})  # or OMP_NUM_THREADS in the environment",
        )
        return [fewer, *advice]
    return advice
