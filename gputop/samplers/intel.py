"""Intel GPUs by what the kernel's drivers (i915, xe) tell in sysfs and in each process's fdinfo. Experimental.

Utilization is that of the processes which this user may look at: the largest of the engines, as time an engine was busy
for them. Other users' work is not in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gputop.records import clean
from gputop.samplers import proc
from gputop.samplers.asking import ONCE, RARE_NS, SLOW_NS, Question, Unsupported
from gputop.samplers.nvml_processes import MOST, Names
from gputop.samplers.protocol import Say, unheard
from gputop.samplers.vendor import VendorBackend, VendorDevice

DRIVERS = ("i915", "xe")
ENGINE = re.compile(r"drm-engine-([\w-]+):\s*(\d+) ns")
CYCLES = re.compile(r"drm-(total-)?cycles-([\w-]+):\s*(\d+)")
RESIDENT = re.compile(r"drm-(?:resident|memory)-(?:vram|local)\d*:\s*(\d+)(?: (KiB|MiB))?")
UNITS = {"": 1, "KiB": 1 << 10, "MiB": 1 << 20}


def backend(
    *, host: str, say: Say = unheard, sysfs: Path = Path("/sys"), procfs: Path = Path("/proc")
) -> VendorBackend:
    """The backend over a sysfs and a procfs."""

    def find() -> list[VendorDevice]:
        return [
            VendorDevice(card, index, f"pci-{address}") for index, (card, address) in enumerate(cards(sysfs, DRIVERS))
        ]

    return VendorBackend("drm", find, lambda: questions(procfs), refused, host=host, say=say)


def cards(sysfs: Path, drivers: Sequence[str]) -> list[tuple[Path, str]]:
    """(device folder, PCI address) of each card of these drivers."""
    found = []
    for card in sorted((sysfs / "class/drm").glob("card[0-9]*")):
        device = card / "device"
        driven = "-" not in card.name and (device / "driver").exists()
        if driven and (device / "driver").resolve().name in drivers:
            found.append((device, device.resolve().name))
    return found


def refused(error: Exception) -> bool:
    """Whether an error means "not supported"."""
    return isinstance(error, Unsupported | FileNotFoundError | KeyError | AttributeError)


def questions(procfs: Path) -> Sequence[Question[VendorDevice]]:
    """Everything asked of a device."""
    names = Names()

    def use(device: VendorDevice) -> dict[str, Any]:
        busy: dict[str, int] = {}
        cycles: dict[str, tuple[int, int]] = {}
        memory: dict[int, int] = {}
        for pid, text in clients(procfs, device.handle.resolve().name):
            for engine, ns in ENGINE.findall(text):
                busy[engine] = busy.get(engine, 0) + int(ns)
            counts = {(bool(total), engine): int(count) for total, engine, count in CYCLES.findall(text)}
            for (total, engine), count in counts.items():
                if not total and (whole := counts.get((True, engine))):
                    used, most = cycles.get(engine, (0, 0))
                    cycles[engine] = used + count, max(most, whole)
            size = sum(int(size) * UNITS[unit] for size, unit in RESIDENT.findall(text))
            memory[pid] = memory.get(pid, 0) + size
        shares = [rate / 1e7 for engine, ns in busy.items() if (rate := device.rate(engine, ns)) is not None]
        shares += [share for engine, both in cycles.items() if (share := _cycled(device, engine, *both)) is not None]
        idle = 0.0 if not busy and not cycles else None
        listed = sorted(memory.items(), key=lambda one: -one[1])[:MOST]
        return {
            "util_pct": min(100.0, max(shares)) if shares else idle,
            "processes": [names.of(pid, size or None) for pid, size in listed],
        }

    def clock(device: VendorDevice) -> dict[str, Any]:
        base = _first(device.handle, ["tile0/gt0/freq0", "drm/card*/gt/gt0", "drm/card*"])
        names = {"freq0": ("act_freq", "max_freq"), "gt0": ("rps_act_freq_mhz", "rps_max_freq_mhz")}
        actual, most = names.get(base.name, ("gt_act_freq_mhz", "gt_max_freq_mhz"))
        return {"sm_clock_mhz": _number(base / actual), "sm_clock_max_mhz": _number(base / most)}

    def energy(device: VendorDevice) -> dict[str, Any]:
        joules = _number(_first(device.handle, ["hwmon/hwmon*/energy1_input"])) / 1e6
        return {"energy_j": joules, "power_w": device.rate("energy", joules)}

    def limit(device: VendorDevice) -> dict[str, Any]:
        return {"power_limit_w": _number(_first(device.handle, ["hwmon/hwmon*/power1_max"])) / 1e6}

    def identity(device: VendorDevice) -> dict[str, Any]:
        code = (device.handle / "device").read_text().strip().removeprefix("0x")
        return {"name": clean(f"Intel GPU {code}", 96), "gpu_pci": device.handle.resolve().name}

    return [
        Question("fdinfo", ["util_pct", "processes"], use, SLOW_NS),
        Question("clock", ["sm_clock_mhz", "sm_clock_max_mhz"], clock),
        Question("hwmon energy", ["energy_j", "power_w"], energy),
        Question("hwmon limit", ["power_limit_w"], limit, RARE_NS),
        Question("identity", ["name", "gpu_pci"], identity, ONCE),
    ]


def _cycled(device: VendorDevice, engine: str, used: int, whole: int) -> float | None:
    """xe counts cycles, and how many there were in all: the share used since the look before."""
    key = f"cycles {engine}"
    before, device.before[key] = device.before.get(key), (whole, float(used))
    if before is None or whole <= before[0] or used < before[1]:
        return None
    return 100 * (used - before[1]) / (whole - before[0])


def clients(procfs: Path, address: str) -> Iterable[tuple[int, str]]:
    """(pid, fdinfo) of each client of a device, once a client: forked processes share theirs."""
    seen: set[str] = set()
    for folder in sorted(procfs.glob("[0-9]*"), key=lambda one: int(one.name)):
        try:
            names = os.listdir(folder / "fdinfo")
        except OSError:
            continue
        for name in names:
            try:
                if not os.readlink(folder / "fd" / name).startswith("/dev/dri/"):
                    continue
                text = proc.read(str(folder / "fdinfo" / name), 4096).decode("ascii", "replace")
            except OSError:
                continue
            client = re.search(r"drm-client-id:\s*(\d+)", text)
            if f"drm-pdev:\t{address}" not in text.replace(" ", "\t") or client is None or client[1] in seen:
                continue
            seen.add(client[1])
            yield int(folder.name), text


def _first(base: Path, patterns: Sequence[str]) -> Path:
    for pattern in patterns:
        for found in sorted(base.glob(pattern)):
            return found
    raise FileNotFoundError(patterns[0])


def _number(path: Path) -> float:
    return float(path.read_text())
