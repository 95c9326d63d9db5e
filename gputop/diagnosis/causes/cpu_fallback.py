"""A GPU is there, but the model, some tensors or some operators are on the CPU."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.machine import OPERATORS_PCT
from gputop.diagnosis.phases import COMPUTE, HOST
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "cpu-fallback"
FAMILY = "placement"

PART_LOST_PCT = 10.0
"""Percent of device time lost from which parameters that lie on the CPU beside a GPU are held to be the reason."""

WHOLE_PCT = 10.0
"""Percent of the step that the model's computing on the CPU takes from which it is the answer, whatever else is; with
less, a GPU would change nothing."""

PART_ON_CPU_PCT = 1.0
"""Percent of the parameters on the CPU from which a model counts as split."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the run computes on the CPU beside a GPU (certain), or has parts of its model there (likely)."""
    if facts.loop is None or facts.lost is None:
        return None
    if facts.device.on_gpu is False and facts.device.gpus_present:
        return _whole(facts, facts.device.gpus_present)
    model = facts.window.model
    if facts.device.on_gpu and model is not None and (model.on_cpu or (facts.device.params_on_cpu_pct or 0.0) > 0):
        return _part(facts, model.on_cpu or [])
    return _operators(facts) if facts.device.on_gpu else None


def _whole(facts: Facts, gpus: int) -> Candidate | None:
    loop, device = facts.loop, facts.device
    assert loop is not None
    compute = loop.compute_pct()
    case = Case(facts)
    case.weigh("GPUs in this machine", float(gpus), True, "", "driver", 2.0, 1.0)
    if facts.window.run.device is not None:
        case.weigh("device that the run computes on", facts.window.run.device, True, None, "run", 2.0)
    if device.params_on_cpu_pct is not None:
        case.at_least("parameters on the CPU", device.params_on_cpu_pct, 100, "%", "model")
    if device.listed is not None:
        case.weigh("run listed on a GPU", str(device.listed), not device.listed, None, "driver", 2.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=compute,
        fit=case.fit,
        headline=f"{count(gpus, 'GPU')} in this machine, but the model trains on the CPU: its computing "
        f"takes {pct(compute)} of a {time(loop.mean_ms)} step there",
        evidence=case.evidence,
        advice=_move(facts),
        certain=compute >= WHOLE_PCT,
    )


def _move(facts: Facts) -> list[Advice]:
    if facts.window.run.gpu_visible == 0:
        first = Advice(
            do="let the script see a GPU: torch finds none",
            why="CUDA_VISIBLE_DEVICES is empty, or this torch is built without CUDA",
            code='python -c "import torch; print(torch.version.cuda, torch.cuda.device_count())"',
        )
        return [first]
    return [
        Advice(
            do="move the model and each batch to the GPU, the model before the optimizer is built",
            why="an operator runs where its tensors are, and nothing warns when that is the CPU",
            code='device = torch.device("cuda")\nmodel = model.to(device)\n'
            "optimizer = torch.optim.AdamW(model.parameters())\n"
            "images = images.to(device, non_blocking=True)",
        )
    ]


def _part(facts: Facts, names: list[str]) -> Candidate | None:
    lost, device = facts.lost, facts.device
    assert lost is not None
    total = lost.total_pct
    if total is None or total < PART_LOST_PCT:
        return None
    case = Case(facts)
    case.at_least("device time lost", total, PART_LOST_PCT, "%", lost.source)
    share = device.params_on_cpu_pct
    if names:
        case.weigh("found on the CPU", ", ".join(names[:3]), True, None, "model", 2.0)
    case.at_least("parameters on the CPU", share, PART_ON_CPU_PCT, "%", "model")
    case.at_least("boundaries that found the device's queue empty", lost.queue_empty, 0.5, "", "device")
    launching = sum(lost.pct(part) for part in ("forward", "backward", "optimizer", "sync"))
    what = ", ".join(names[:3]) if names else f"{pct(share or 0.0)} of the parameters"
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=launching,
        fit=case.fit,
        headline=f"{what} on the CPU beside {device.name}: the device idles {pct(launching)} of the step around it",
        evidence=case.evidence,
        advice=[
            Advice(
                do=f"move {names[0] if names else 'all parameters and buffers'} to the GPU",
                why="each pass through it copies to the CPU and back",
                code="model = model.to(device)  # before the optimizer is built; register_buffer() for constants",
            )
        ],
        estimated=True,
    )


def _operators(facts: Facts) -> Candidate | None:
    """Where nothing says what lies on the CPU: the device idles in the model's phases while many threads compute."""
    lost, loop, busy = facts.lost, facts.loop, facts.machine.process_pct
    if lost is None or loop is None or lost.total_pct is None or busy is None or busy < OPERATORS_PCT:
        return None
    share = sum(lost.pct(part) for part in (*COMPUTE, *((HOST,) if loop.opaque else ())))
    if share < PART_LOST_PCT:
        return None
    case = Case(facts)
    case.at_least("device time lost where work is launched", share, PART_LOST_PCT, "%", lost.source)
    case.at_least("CPU of the training process, its workers left out", busy, OPERATORS_PCT, "%", "process", 2.0)
    case.at_least("boundaries that found the device's queue empty", lost.queue_empty, 0.5, "", "device")
    if loop.opaque:
        case.missing(2.0)
    case.missing(1.5)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{facts.device.name} idles {pct(share)} of the step in forward, backward and update while the "
        f"training itself uses {count(busy / 100, 'core')}: operators seem to run on the CPU",
        evidence=case.evidence,
        advice=[
            Advice(
                do="find the operators that run on the CPU, and give them types that the GPU has kernels for",
                why="nothing warns when an operator has no kernel there, or gets a tensor that lies on the CPU",
                code="with torch.profiler.profile() as prof:\n    step()\n"
                'print(prof.key_averages().table(sort_by="self_cpu_time_total"))',
            )
        ],
        estimated=True,
    )
