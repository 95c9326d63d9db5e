"""A GPU is there, but the model, some tensors or some operators are on the CPU."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "cpu-fallback"
FAMILY = "placement"

PART_LOST_PCT = 10.0
"""Percent of device time lost from which parameters that lie on the CPU beside a GPU are held to be the reason."""

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
    return None


def _whole(facts: Facts, gpus: int) -> Candidate | None:
    loop, device = facts.loop, facts.device
    assert loop is not None
    compute = loop.compute_pct() if not loop.opaque else loop.pct("host")
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
        certain=True,
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
