"""A data loader of simulated worker processes: torch's dealing out of batches, on any clock, without a process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

import msgspec

from gputop.simulation.activity import Activity
from gputop.simulation.clock import Clock
from gputop.simulation.physics import Physics


class Batch(msgspec.Struct, frozen=True):
    """A batch of images: its number in the epoch, and its shape as a tensor would give it."""

    number: int
    shape: tuple[int, ...]


class SimulatedLoader:
    """Yields one epoch's batches, each as late as its worker finishes it.

    As torch does: batch i goes to worker i modulo `num_workers`; `num_workers * prefetch_factor` batches are dealt out
    ahead, one more for each that is taken; batches come in order. A worker's time for a batch grows by the ratio of
    runnable threads to cores, where that is above one. With no workers the loop's own thread makes the batch.
    """

    def __init__(self, clock: Clock, physics: Physics, random: Random, main_cpu: Activity) -> None:
        plan = physics.input
        self.num_workers = plan.workers
        self.prefetch_factor = plan.prefetch if plan.workers else None
        self.pin_memory = plan.pin_memory
        self.persistent_workers = plan.workers > 0
        self.in_order = True
        self.batch_size = plan.batch
        self.drop_last = True
        self.dataset = "ImageFolder"
        self.worker_cpu = [Activity() for _ in range(plan.workers)]
        self.bytes_read = Activity()
        self.ready_batches = 0
        self.late_ready = 0
        self._free_at = [clock.now()] * plan.workers
        self._clock = clock
        self._physics = physics
        self._random = random
        self._main_cpu = main_cpu

    def __len__(self) -> int:
        return self._physics.input.batches

    def __iter__(self) -> Iterator[Batch]:
        pending: deque[int] = deque()
        ahead = self.num_workers * (self.prefetch_factor or 0)
        for batch in range(min(ahead, len(self))):
            pending.append(self._deal(batch))
        for batch in range(len(self)):
            if not self.num_workers:
                self._make()
            else:
                self._take(pending)
                if batch + ahead < len(self):
                    pending.append(self._deal(batch + ahead))
            yield Batch(batch, (self.batch_size, 3, 224, 224))

    def _deal(self, batch: int) -> int:
        """Give a batch to its worker; returns when it will be ready."""
        now = self._clock.now()
        worker = batch % self.num_workers
        start = max(now, self._free_at[worker])
        running = 1 + sum(free > start for i, free in enumerate(self._free_at) if i != worker)
        crowding = max(1.0, (running + 0.5) / self._physics.machine.cores)
        cpu_ns = self._decode_ns()
        end = start + round(cpu_ns * crowding)
        self.worker_cpu[worker].add(start, end, 1 / crowding)
        self._free_at[worker] = end
        return end

    def _take(self, pending: deque[int]) -> None:
        now = self._clock.now()
        self.ready_batches = sum(t <= now for t in pending)
        ready = pending.popleft()
        self.late_ready = sum(t <= now for t in pending) if ready > now else 0
        self._clock.wait_until(ready)
        now = self._clock.now()
        self._spend(self._physics.scaled(self._physics.input.handover_ns))
        self._account_read(now)

    def _make(self) -> None:
        self._spend(self._decode_ns())
        self._account_read(self._clock.now())

    def _spend(self, ns: int) -> None:
        now = self._clock.now()
        self._main_cpu.add(now, now + ns)
        self._clock.wait_until(now + ns)

    def _decode_ns(self) -> int:
        plan = self._physics.input
        factor = self._random.lognormvariate(0.0, plan.decode_jitter) if plan.decode_jitter else 1.0
        return self._physics.scaled(plan.decode_ns * factor)

    def _account_read(self, now: int) -> None:
        nbytes = self._physics.input.read_bytes
        if nbytes:
            self.bytes_read.add(now, now + 1_000_000, nbytes / 1_000_000)
