"""A data loader of simulated worker processes: torch's dealing out of batches, on any clock, without a process."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

import msgspec

from gputop.simulation.activity import Activity
from gputop.simulation.clock import Clock
from gputop.simulation.physics import Physics

AHEAD_NS = 60_000_000_000
"""How far ahead of the loop work may be dealt out to workers, so that what they do now is still exact."""

SWITCHING = 0.15
"""What each further thread for a core costs all of them in switches and lost caches, where pools spin."""


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

    def __init__(
        self,
        clock: Clock,
        physics: Physics,
        random: Random,
        main_cpu: Activity,
        main_queued: Activity | None = None,
        activity: type[Activity] = Activity,
    ) -> None:
        plan = physics.input
        self.num_workers = plan.workers
        self.prefetch_factor = plan.prefetch if plan.workers else None
        self.pin_memory = plan.pin_memory
        self.persistent_workers = plan.workers > 0 and not plan.restart_ns
        self.in_order = plan.in_order
        self.batch_size = plan.batch
        self.drop_last = True
        self.dataset = "ImageFolder"
        self.worker_cpu = [activity(AHEAD_NS) for _ in range(plan.workers)]
        self.worker_queued = [activity(AHEAD_NS) for _ in range(plan.workers)]
        self.worker_reading = [activity(AHEAD_NS) for _ in range(plan.workers)]
        self.disk = activity(AHEAD_NS)
        self.bytes_read = activity()
        self.ready_batches = 0
        self.late_ready = 0
        self._free_at = [clock.now()] * plan.workers
        self._disk_free_at = clock.now()
        self._cores = physics.machine.cores
        self._most_threads = plan.workers * plan.worker_threads
        self._clock = clock
        self._physics = physics
        self._random = random
        self._main_cpu = main_cpu
        self._main_queued = main_queued or Activity()

    def __len__(self) -> int:
        return self._physics.input.batches

    def __iter__(self) -> Iterator[Batch]:
        pending: deque[int] = deque()
        ahead = self.num_workers * (self.prefetch_factor or 0)
        if self._physics.input.restart_ns:
            up = self._clock.now() + self._physics.scaled(self._physics.input.restart_ns)
            self._free_at = [max(up, free) for free in self._free_at]
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
        now, plan = self._clock.now(), self._physics.input
        in_turn = batch % self.num_workers
        worker = in_turn if self.in_order else min(range(self.num_workers), key=self._free_at.__getitem__)
        start = self._read(max(now, self._free_at[worker]), worker)
        crowding = self.crowding(start, extra=0.5 + plan.worker_threads, but=worker)
        switching = 1 + SWITCHING * (crowding - 1) if plan.worker_threads > 1 else 1.0
        end = start + round(self._decode_ns() * crowding * switching)
        self.worker_cpu[worker].add(start, end, plan.worker_threads / crowding)
        self.worker_queued[worker].add(start, end, 1 - 1 / crowding)
        self._free_at[worker] = end
        return end

    def crowding(self, now: int, extra: float, but: int = -1) -> float:
        """Threads that want a core over the cores there are; 1 where there are enough. `extra`: the caller's own."""
        wanted = self._physics.machine.others + extra
        if self._most_threads + wanted <= self._cores:
            return 1.0
        running = sum([free > now for free in self._free_at])
        if but >= 0 and self._free_at[but] > now:
            running -= 1
        return max(1.0, (running * self._physics.input.worker_threads + wanted) / self._cores)

    def _read(self, start: int, worker: int | None = None) -> int:
        """Read one batch from the disk, after what others asked for earlier; returns when it is there."""
        plan = self._physics.input
        if not plan.disk_bytes_s:
            return start
        begin = max(start, self._disk_free_at)
        end = begin + self._physics.scaled(plan.read_bytes / plan.disk_bytes_s * 1e9)
        self.disk.add(begin, end)
        self._disk_free_at = end
        if worker is not None:
            self.worker_reading[worker].add(start, end)
        return end

    def _take(self, pending: deque[int]) -> None:
        now = self._clock.now()
        self.ready_batches = sum(t <= now for t in pending)
        if not self.in_order:
            soonest = min(pending)
            pending.remove(soonest)
            pending.appendleft(soonest)
        ready = pending.popleft()
        self.late_ready = sum(t <= now for t in pending) if ready > now else 0
        self._clock.wait_until(ready)
        now = self._clock.now()
        self._spend(self._physics.scaled(self._physics.input.handover_ns))
        self._account_read(now)

    def _make(self) -> None:
        self._clock.wait_until(self._read(self._clock.now()))
        crowding = self.crowding(self._clock.now(), extra=1.0)
        self._spend(round(self._decode_ns() * crowding), crowding)
        self._account_read(self._clock.now())

    def _spend(self, ns: int, crowding: float = 1.0) -> None:
        now = self._clock.now()
        self._main_cpu.add(now, now + ns, 1 / crowding)
        self._main_queued.add(now, now + ns, 1 - 1 / crowding)
        self._clock.wait_until(now + ns)

    def _decode_ns(self) -> int:
        plan = self._physics.input
        factor = self._random.lognormvariate(0.0, plan.decode_jitter) if plan.decode_jitter else 1.0
        if plan.slow_share and self._random.random() < plan.slow_share:
            factor *= plan.slow_factor
        return self._physics.scaled(plan.decode_ns * factor)

    def _account_read(self, now: int) -> None:
        nbytes = self._physics.input.read_bytes
        if nbytes:
            self.bytes_read.add(now, now + 1_000_000, nbytes / 1_000_000)
