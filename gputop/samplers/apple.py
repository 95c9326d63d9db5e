"""Apple's GPU, by what the system's own `ioreg` tells without any rights. Experimental.

Its memory is the machine's: it is shown as shared and never added to it.
"""

from __future__ import annotations

import plistlib
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import psutil

from gputop.records import clean
from gputop.samplers.asking import SLOW_NS, Failed, Question, Unsupported
from gputop.samplers.protocol import Say, unheard
from gputop.samplers.vendor import VendorBackend, VendorDevice

COMMAND = ("/usr/sbin/ioreg", "-r", "-d", "1", "-w", "0", "-c", "IOAccelerator", "-a")
PATIENCE_S = 3.0


def backend(*, host: str, say: Say = unheard, ask: Callable[[], bytes] | None = None) -> VendorBackend:
    """The backend; `ask` gives the property list of the accelerators."""
    read = ask or _ioreg

    def find() -> list[VendorDevice]:
        found = [index for index, one in enumerate(accelerators(read())) if _is_gpu(one)]
        return [VendorDevice(index, index, f"apple-{index}") for index in found]

    return VendorBackend("ioreg", find, lambda: questions(read), refused, host=host, say=say)


def _ioreg() -> bytes:
    return subprocess.run(COMMAND, capture_output=True, check=True, timeout=PATIENCE_S).stdout


def accelerators(data: bytes) -> list[dict[str, Any]]:
    """The accelerators of a property list. Raises ValueError."""
    try:
        found = plistlib.loads(data)
    except Exception as error:
        raise ValueError(f"ioreg did not answer with a property list: {error}") from None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _is_gpu(one: dict[str, Any]) -> bool:
    return isinstance(one.get("PerformanceStatistics"), dict)


def refused(error: Exception) -> bool:
    """Whether an error means "not supported"."""
    return isinstance(error, Unsupported | KeyError | AttributeError)


def questions(read: Callable[[], bytes]) -> Sequence[Question[VendorDevice]]:
    """Everything asked of a device: one call tells it all, and costs some 20 ms, so not at each tick."""

    def everything(device: VendorDevice) -> dict[str, Any]:
        found = accelerators(read())[device.handle]
        statistics = found["PerformanceStatistics"]
        busy = statistics.get("Device Utilization %", statistics.get("GPU Activity(%)"))
        used = statistics.get("In use system memory")
        return {
            "util_pct": Unsupported if busy is None else busy if 0 <= busy <= 100 else Failed,
            "mem_used_bytes": int(used) if used is not None else Unsupported,
            "mem_total_bytes": psutil.virtual_memory().total,
            "mem_shared": True,
            "name": clean(_text(found.get("model")) or "Apple GPU", 96),
        }

    return [
        Question("ioreg", ["util_pct", "mem_used_bytes", "mem_total_bytes", "mem_shared", "name"], everything, SLOW_NS)
    ]


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.rstrip(b"\0").decode("utf-8", "replace")
    return value if isinstance(value, str) else ""
