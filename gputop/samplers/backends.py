"""Which vendors' GPUs this machine has, and the backend that asks them. Only what is here is imported."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from gputop.samplers.protocol import GpuBackend, Say
from gputop.samplers.vendor import Several


def vendors(sysfs: Path = Path("/sys"), procfs: Path = Path("/proc"), platform: str = sys.platform) -> list[str]:
    """Modules of the backends for the GPUs that the kernel shows, NVIDIA's first.

    NVIDIA's is asked where no other vendor is, too: in a container, or under WSL, the kernel shows nothing of it.
    """
    if platform == "darwin":
        return ["apple"]
    found = []
    if (sysfs / "class/kfd/kfd/topology/nodes").exists() and (sysfs / "module/amdgpu").exists():
        found.append("amd")
    found += ["intel"] if any(_discrete(card) for card in (sysfs / "class/drm").glob("card[0-9]*")) else []
    nvidia = any((procfs / name).exists() for name in ("driver/nvidia/version", "driver/nvidia"))
    return ["nvml", *found] if nvidia or not found else found


def _discrete(card: Path) -> bool:
    """Whether a card is Intel's and on a bus of its own: the graphics of a CPU are no device to train on."""
    device = card / "device"
    if "-" in card.name or not (device / "driver").exists():
        return False
    on_root_bus = device.resolve().name.split(":")[1:2] == ["00"]
    return (device / "driver").resolve().name in ("i915", "xe") and not on_root_bus


def here(*, host: str, say: Say, names: list[str] | None = None) -> GpuBackend:
    """The backend for this machine's GPUs."""
    found: list[GpuBackend] = []
    for name in vendors() if names is None else names:
        if name == "nvml":
            from gputop.samplers.nvml import NvmlBackend

            found.append(NvmlBackend(host=host, say=say))
        else:
            found.append(importlib.import_module(f"gputop.samplers.{name}").backend(host=host, say=say))
    return found[0] if len(found) == 1 else Several(found)
