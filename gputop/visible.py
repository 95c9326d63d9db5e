"""CUDA_VISIBLE_DEVICES and its like: which devices a process may use, and which of this machine's GPUs one of them is.

Its rules (CUDA's programming guide, environment variables): ordinals, or UUIDs that may be cut short as long as only
one device begins so, or MIG instances; an entry that names nothing ends the list, and an empty list hides every device.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

PCI_ORDER = "PCI_BUS_ID"
"""The value of CUDA_DEVICE_ORDER under which ordinals are those of the PCI addresses; by default the fastest GPU is 0,
by a rule of CUDA's own."""

_NUMBER = re.compile(r"\s*\+?(\d+)")
_OLD_MIG = re.compile(r"MIG-(GPU-[^/]+)/(\d+)/(\d+)")
"""How instances were named by drivers before 470: the device's UUID, the GPU instance, the compute instance."""


class Device(NamedTuple):
    """A GPU of the machine: its uuid, PCI address (domain, bus, device) and the uuids of its MIG instances."""

    uuid: str
    pci: tuple[int, int, int] | None = None
    instances: tuple[str, ...] = ()


def entries(value: str) -> tuple[str, ...]:
    """The entries in force: those before the first that can't name a device; none where one stands there twice."""
    words = [word.strip() for word in value.split(",")]
    prefix = next((one for one in ("GPU-", "MIG-") if words[0].startswith(one)), None)
    found: list[str] = []
    for word in words:
        number = _NUMBER.match(word)
        one = word if prefix else str(int(number[1])) if number else None
        if one is None or (prefix and (not one.startswith(prefix) or one == prefix)):
            break
        if one in found:
            return ()
        found.append(one)
    return tuple(found)


def in_force(environ: Mapping[str, str], *, amd: bool) -> str | None:
    """The value that says which devices a process may use, None where nothing does.

    On AMD's (ROCm's documentation, GPU isolation) HIP_VISIBLE_DEVICES, or CUDA_VISIBLE_DEVICES in its place, counts
    among what ROCR_VISIBLE_DEVICES leaves: with both in force no number is the machine's, and nothing is told.
    """
    cuda = environ.get("CUDA_VISIBLE_DEVICES")
    if not amd:
        return cuda
    left, chosen = environ.get("ROCR_VISIBLE_DEVICES"), environ.get("HIP_VISIBLE_DEVICES", cuda)
    if left is None or (chosen is not None and not entries(chosen)):
        return chosen
    return left if chosen is None or not entries(left) else None


def hides_all(value: str | None) -> bool:
    """Whether a process with this CUDA_VISIBLE_DEVICES has no device at all."""
    return value is not None and not entries(value)


def ordinal(device: str | None) -> int | None:
    """The number in "cuda:1", None in anything else."""
    kind, _, number = (device or "").partition(":")
    return int(number) if kind == "cuda" and number.isdigit() else None


def device_of(value: str | None, order: str | None, at: int, machine: Sequence[Device]) -> str | None:
    """The uuid of the process's device number `at`; None where that is not certain.

    `value` is its CUDA_VISIBLE_DEVICES and `order` its CUDA_DEVICE_ORDER, None where they are not set. `machine` has
    every GPU that the process could see.
    """
    named = entries(value) if value is not None else None
    if named is not None and at >= len(named):
        return None
    if named is not None and not named[at].isdigit():
        first = [_by_uuid(one, machine) for one in named[: at + 1]]
        return first[at] if None not in first else None
    if any(one.instances for one in machine) or (order != PCI_ORDER and len(machine) != 1):
        return None  # with MIG instances ordinals count these, of one device only
    numbers = [int(one) for one in named[: at + 1]] if named is not None else [at]
    if max(numbers) >= len(machine) or any(one.pci is None for one in machine):
        return None
    return sorted(machine, key=lambda one: one.pci or (0, 0, 0))[numbers[-1]].uuid


def _by_uuid(entry: str, machine: Sequence[Device]) -> str | None:
    """The one device whose UUID, or whose instance's, begins with an entry."""
    if (old := _OLD_MIG.fullmatch(entry)) is not None:
        entry = old[1]
    wanted = entry.lower()
    found = [
        one.uuid for one in machine for uuid in (one.uuid, *one.instances) if uuid.lower().startswith(wanted)
    ]  # fmt: skip
    return found[0] if len(found) == 1 else None
