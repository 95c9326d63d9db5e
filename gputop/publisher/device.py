"""The device clock: marks in a device's own queue, made and read without ever waiting for the device."""

from __future__ import annotations

from typing import Any, Protocol


class DeviceClock(Protocol):
    """What the step clock asks of a device. Every call is made on the training thread and must return at once."""

    def ready(self) -> bool:
        """Whether marks may be made now: the script itself has initialised the device and captures no graph."""

    def idle(self) -> bool | None:
        """Whether all work queued so far on the current stream is done; None when that can't be said."""

    def mark(self) -> Any:
        """Put a mark in the queue: it takes its time when the device reaches it."""

    def done(self, mark: Any) -> bool:
        """Whether the device has reached the mark."""

    def elapsed_ns(self, earlier: Any, later: Any) -> int:
        """Device time between two reached marks, in nanoseconds."""

    def release(self, mark: Any) -> None:
        """Give a reached mark back for reuse."""

    def launched(self) -> int | None:
        """Pieces of work queued so far, where the device counts them: tells which regions launched none."""

    def identity(self) -> dict[str, Any]:
        """What is known of the device, as fields of a `run` record: device, gpu_uuid, gpu_pci, gpu_name …"""

    def memory(self) -> dict[str, int]:
        """Allocator figures, as fields of a `step` record: mem_allocated_bytes, mem_reserved_bytes, alloc_retries."""
