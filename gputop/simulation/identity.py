"""Who the simulated device is: the fields of a `run` record that the machine, not the process, gives."""

from __future__ import annotations

from typing import Any

from gputop.simulation.physics import Physics
from gputop.simulation.state import GPU_PCI, GPU_UUID


def identity(physics: Physics, name: str) -> dict[str, Any]:
    """Device, cores, and the scenario as the script. A model left on the CPU never touched the GPU: none is named."""
    fields: dict[str, Any] = {
        "cores": physics.machine.cores,
        "cores_allowed": physics.machine.cores,
        "gpu_visible": 1,
        "simulated": True,
        "script": f"demo {name}",
        "device": "cpu",
    }
    if physics.model.on_device:
        fields |= {"device": "sim:0", "gpu_uuid": GPU_UUID, "gpu_pci": GPU_PCI, "gpu_name": physics.gpu.name}
    return fields
