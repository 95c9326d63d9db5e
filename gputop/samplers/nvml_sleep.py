"""Laptop GPUs that sleep: opening one wakes it, and asking it keeps it awake, so its power state is read first.

The kernel tells it in sysfs. Only GPUs that may sleep at all are let go: their power/control is "auto", and the driver
says that it puts them to sleep (runtime D3, on laptops from Turing on). A server's are not.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gputop.records import Gpu
from gputop.samplers.protocol import S

NVIDIA = "0x10de"
DISPLAY = "0x03"
"""The PCI class of display and 3D controllers begins so (the PCI code and ID assignment)."""

QUIET_NS = 60 * S
"""Time without work or a process after which a GPU that may sleep is let go, so that it can."""

LOOK_NS = 2 * S
WHY = "the GPU sleeps to save power, and gputop does not wake it: it is watched again as soon as something uses it"


class Sleep:
    """What the kernel says of NVIDIA's GPUs here, and since when they have had nothing to do."""

    def __init__(self, sysfs: Path = Path("/sys"), procfs: Path = Path("/proc")) -> None:
        self._devices = sysfs / "bus/pci/devices"
        self._driver = procfs / "driver/nvidia/gpus"
        self._waits_for_sleep = self._sleepless = False
        self._gpus: list[Path] | None = None
        self._quiet_since: int | None = None

    def asleep(self) -> bool:
        """Whether every GPU sleeps; False where there is none, or the kernel doesn't tell."""
        states = [_read(gpu / "power/runtime_status") for gpu in self._found()]
        asleep = bool(states) and all(state == "suspended" for state in states)
        if asleep:
            self._waits_for_sleep = False
        elif self._waits_for_sleep:
            self._sleepless = True  # let go, it stayed awake: something else holds it
        return asleep

    def let_go(self, rows: Iterable[Gpu], now_ns: int) -> bool:
        """Whether it is time to let them sleep: they may, and have long had nothing to do."""
        if any(gpu.util_pct or gpu.processes or gpu.processes is None for gpu in rows) or not self._may():
            self._quiet_since = None
            return False
        self._quiet_since = now_ns if self._quiet_since is None else self._quiet_since
        if now_ns - self._quiet_since < QUIET_NS:
            return False
        self._quiet_since = None
        self._waits_for_sleep = True
        return True

    def _may(self) -> bool:
        gpus = self._found()
        return bool(gpus) and not self._sleepless and all(self._can(gpu) for gpu in gpus)

    def _can(self, gpu: Path) -> bool:
        says = next((line for line in _read(self._driver / gpu.name / "power").splitlines() if "D3 status" in line), "")
        return "Enabled" in says and _read(gpu / "power/control") == "auto"

    def _found(self) -> list[Path]:
        if self._gpus is None:
            try:
                every = list(self._devices.iterdir())
            except OSError:
                every = []
            self._gpus = [
                device for device in every
                if _read(device / "vendor") == NVIDIA and _read(device / "class").startswith(DISPLAY)
            ]  # fmt: skip
        return self._gpus


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
