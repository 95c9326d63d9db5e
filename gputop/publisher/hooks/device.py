"""The CUDA device clock: pooled events on the current stream. Never a wait, never a context the script did not make."""

from __future__ import annotations

import glob
import os
import sys
from typing import Any

from gputop.publisher.device import DeviceClock

POOL = 256
"""Reached events kept for reuse."""


NODES = ("/dev/nvidia*", "/dev/dxg", "/dev/kfd", "/dev/nvgpu*", "/dev/nvhost*", "/dev/nvmap")
"""Where Linux shows a GPU: NVIDIA's driver, WSL, ROCm, Jetson."""


def possible(nodes: tuple[str, ...] = NODES) -> bool:
    """Whether this machine can have a device at all: asked of no driver, which must not be woken here."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    return not sys.platform.startswith("linux") or any(glob.glob(node) for node in nodes)


def find() -> DeviceClock | None:
    """A clock for the device that this build of torch could use; None where there can be none."""
    torch = sys.modules.get("torch")
    if torch is None or (getattr(torch.version, "cuda", None) is None and getattr(torch.version, "hip", None) is None):
        return None
    if not possible():
        return None
    return CudaClock(torch)


class CudaClock:
    """Implements `DeviceClock` with torch.cuda (or HIP, which torch names so too)."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._cuda = torch.cuda
        self._pool: list[Any] = []
        self._stream: int | None = None
        self._several = False

    def ready(self) -> bool:
        """Whether the script has initialised CUDA and captures no graph."""
        return bool(self._cuda.is_initialized()) and not self._cuda.is_current_stream_capturing()

    def idle(self) -> bool | None:
        """Whether the current stream has drained; None once work was seen on more than one stream."""
        stream = self._cuda.current_stream()
        handle = stream.cuda_stream
        if self._stream is None:
            self._stream = handle
        elif handle != self._stream:
            self._several = True
        return None if self._several else bool(stream.query())

    def mark(self) -> Any:
        """An event recorded on the current stream."""
        event = self._pool.pop() if self._pool else self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def done(self, mark: Any) -> bool:
        """Whether the event has been reached."""
        return bool(mark.query())

    def elapsed_ns(self, earlier: Any, later: Any) -> int:
        """Device time between two reached events."""
        return int(earlier.elapsed_time(later) * 1e6)

    def release(self, mark: Any) -> None:
        """Keep a reached event for reuse."""
        if len(self._pool) < POOL:
            self._pool.append(mark)

    def launched(self) -> int | None:
        """CUDA does not count launches for us."""
        return None

    def identity(self) -> dict[str, Any]:
        """The current device, asked only once CUDA is there already."""
        if not self._cuda.is_initialized():
            return {}
        index = self._cuda.current_device()
        properties = self._cuda.get_device_properties(index)
        fields: dict[str, Any] = {
            "device": f"cuda:{index}",
            "gpu_name": properties.name,
            "gpu_visible": self._cuda.device_count(),
        }
        uuid = getattr(properties, "uuid", None)
        if uuid is not None:
            text = str(uuid)
            fields["gpu_uuid"] = text if text.startswith("GPU-") else f"GPU-{text}"
        bus, domain = getattr(properties, "pci_bus_id", None), getattr(properties, "pci_domain_id", None)
        slot = getattr(properties, "pci_device_id", None)
        if isinstance(bus, int) and isinstance(domain, int) and isinstance(slot, int):
            fields["gpu_pci"] = f"{domain:08X}:{bus:02X}:{slot:02X}.0"
        return fields

    def memory(self) -> dict[str, int]:
        """The caching allocator's figures; the user's own peaks are left as they are. None of another allocator's."""
        try:
            stats = self._cuda.memory_stats_as_nested_dict()
        except RuntimeError:  # a pluggable allocator (RMM's) keeps none
            return {}
        return {
            "mem_allocated_bytes": int(stats["allocated_bytes"]["all"]["current"]),
            "mem_reserved_bytes": int(stats["reserved_bytes"]["all"]["current"]),
            "alloc_retries": int(stats["num_alloc_retries"]),
        }
