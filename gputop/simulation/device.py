"""A device queue: work runs in the order it was launched, after what was queued before it, while the host goes on.

The model is CUDA's: launches cost host time and return; the queue holds a limited number of kernels, and a launch into
a full one waits; a read of a device value waits until the queue has drained; a copy from pageable memory blocks the
host, one from pinned memory is queued like a kernel.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from gputop.simulation.activity import Activity
from gputop.simulation.clock import Clock

QUEUE_KERNELS = 1024
"""Kernels that may be queued before a launch waits: the depth observed of CUDA's launch queue."""

SPINNING = 0.15
"""Power that a kernel draws which only waits for other ranks, of what a full load does."""


class SimulatedDevice:
    """One stream of one device, in the time of `clock`. All durations in ns."""

    def __init__(self, clock: Clock, *, queue_kernels: int = QUEUE_KERNELS) -> None:
        self.clock = clock
        self.launches = 0
        self.busy = Activity()
        self.power = Activity()
        self.mem_allocated_bytes = 0
        self.mem_reserved_bytes = 0
        self.alloc_retries = 0
        self._queue_kernels = queue_kernels
        self._chunks: deque[tuple[int, int, int]] = deque()
        self._free_at = clock.now()

    def drained_at(self) -> int:
        """When all that is queued so far will be done: now, if nothing is."""
        return max(self.clock.now(), self._free_at)

    def launch(self, kernels: int, kernel_ns: int, launch_ns: int, intensity: float = 1.0) -> int:
        """Launch `kernels` equal kernels one after the other; returns when the last launch call returns (host time).

        Kernel i starts when it is launched and its forerunner is done. The last one therefore ends at the latest of:
        all of them after the earlier queue; all of them after the first launch; one after the last launch (what comes
        between is never later, being linear in i). `intensity` (0-1) is how much power they draw.
        """
        if kernels <= 0:
            return self.clock.now()
        now = self.clock.now()
        work = kernels * kernel_ns
        start = max(now + launch_ns, self._free_at)
        end = max(start + work, now + kernels * launch_ns + kernel_ns)
        self._queue(start, end, kernels, work / (end - start) if end > start else 1.0, intensity)
        return max(now + kernels * launch_ns, self._room_at(now))

    def copy(self, nbytes: int, bytes_s: float) -> int:
        """Queue a copy of `nbytes` over a link; returns when it will be done. To a driver, a copy is no utilization."""
        start = self.drained_at()
        end = start + round(nbytes / bytes_s * 1e9)
        self._queue(start, end, 1, 0.0, 0.0)
        return end

    def spin(self, until: int) -> None:
        """Queue a kernel that waits until then: to a driver it is busy, and draws little power."""
        start = self.drained_at()
        self._queue(start, max(start, until), 1, 1.0, SPINNING)

    def _queue(self, start: int, end: int, kernels: int, share: float, intensity: float) -> None:
        self.launches += kernels
        self.busy.add(start, end, share)
        self.power.add(start, end, share * intensity)
        self._chunks.append((start, end, kernels))
        self._free_at = max(self._free_at, end)

    def _room_at(self, now: int) -> int:
        """When at most `queue_kernels` of what is queued are left."""
        while self._chunks and self._chunks[0][1] <= now:
            self._chunks.popleft()
        left = self._queue_kernels
        for start, end, kernels in reversed(self._chunks):
            if kernels >= left:
                return end - (end - start) * left // kernels
            left -= kernels
        return now


class SimulatedClock:
    """gputop's device clock (`gputop.publisher.device.DeviceClock`) on a simulated device. A mark is its time."""

    def __init__(
        self, device: SimulatedDevice, identity: dict[str, Any], *, used: bool = True, cpu: Activity | None = None
    ) -> None:
        self._device = device
        self._identity = identity
        self._used = used
        self._cpu = cpu

    def ready(self) -> bool:
        """True where the training uses the device at all."""
        return self._used

    def idle(self) -> bool | None:
        """Whether the queue has drained."""
        return self._device.drained_at() <= self._device.clock.now()

    def mark(self) -> int:
        """The time at which the device reaches this point of its queue."""
        return self._device.drained_at()

    def done(self, mark: int) -> bool:
        """Whether that time has come."""
        return mark <= self._device.clock.now()

    def elapsed_ns(self, earlier: int, later: int) -> int:
        """Device time between two marks."""
        return later - earlier

    def release(self, mark: int) -> None:
        """Nothing is pooled here."""

    def launched(self) -> int | None:
        """Kernels and copies queued so far."""
        return self._device.launches

    def identity(self) -> dict[str, Any]:
        """Fields of a `run` record: the device, and the simulated machine's cores."""
        return dict(self._identity)

    def host_cpu_ns(self) -> int:
        """CPU time of the simulated training thread so far, which the real one only sleeps through."""
        return round(self._cpu.total(self._device.clock.now())) if self._cpu is not None else 0

    def memory(self) -> dict[str, int]:
        """Allocator figures, as fields of a `step` record."""
        if not self._used:
            return {}
        return {
            "mem_allocated_bytes": self._device.mem_allocated_bytes,
            "mem_reserved_bytes": self._device.mem_reserved_bytes,
            "alloc_retries": self._device.alloc_retries,
        }
