"""Who the simulated device and model are: what a publisher would learn from a real device and a real optimizer."""

from __future__ import annotations

from typing import Any

from gputop.records import Model
from gputop.simulation.physics import Physics
from gputop.simulation.state import GPU_PCI, gpu_uuid


def identity(physics: Physics, name: str, rank: int = 0) -> dict[str, Any]:
    """Device, cores, and the scenario as the script. A model left on the CPU never touched the GPU: none is named."""
    fields: dict[str, Any] = {
        "cores": physics.machine.cores,
        "cores_allowed": physics.machine.cores,
        "gpu_visible": physics.machine.gpus,
        "simulated": True,
        "script": f"demo {name}",
        "device": "cpu",
    }
    if physics.model.on_device:
        fields |= {"device": "sim:0", "gpu_uuid": gpu_uuid(rank), "gpu_pci": GPU_PCI, "gpu_name": physics.gpu.name}
    return fields


def model(physics: Physics, run_id: str, t: int) -> Model:
    """What is trained, as a publisher would read it off an optimizer's parameters."""
    plan = physics.model
    return Model(
        t=t, run_id=run_id, name=plan.name, param_count=plan.params, param_bytes=4 * plan.params,
        devices={"sim:0" if plan.on_device else "cpu": plan.params}, dtypes={"float32": plan.params},
        autocast=False, compiled=False, optimizer="AdamW", optimizer_fused=plan.optimizer_fused,
        param_tensors=plan.param_tensors,
    )  # fmt: skip
