"""The simulated machine at work: a physics description turned into waits on a clock, a device queue and CPU time."""

from __future__ import annotations

import math
from random import Random

import msgspec

from gputop.simulation.activity import Activity
from gputop.simulation.clock import Clock
from gputop.simulation.device import SimulatedDevice
from gputop.simulation.exchange import Exchange
from gputop.simulation.loader import SimulatedLoader
from gputop.simulation.physics import UNFUSED_OPS, Episodes, Physics

CPU_SLOWDOWN = 9.0
"""How much longer this model's work takes on the CPU's cores than on the device; small models, so not hundreds."""

LEAST_KERNEL_NS = 1_500
"""The shortest kernel there is: less work in it takes no less time."""

CLOCK_STEP_MHZ = 75
"""How far the device lowers or raises its clock in one thermal control step, each 200 ms."""


class Rig:
    """What a training loop can ask of the machine. Each call returns when the host thread would go on."""

    def __init__(
        self,
        clock: Clock,
        physics: Physics,
        seed: int = 0,
        *,
        rank: int = 0,
        exchange: Exchange | None = None,
        activity: type[Activity] = Activity,
    ) -> None:
        self.clock = clock
        self.physics = physics
        self.rank = rank
        self.exchange = exchange
        self.device = SimulatedDevice(clock)
        self.main_cpu = activity()
        self.main_queued = activity()
        self.compute_cpu = activity()
        self.disk_written = activity()
        self.temp_c = physics.gpu.ambient_c + 0.5 * physics.gpu.c_per_w * physics.gpu.power_limit_w
        self.clock_mhz = physics.gpu.clock_max_mhz
        self.throttled_ns = 0
        self._random = Random(seed)
        self._heated_at = clock.now()
        self._step = 0
        self._ready: list[int] = []
        self.started = clock.now()
        self.loader = SimulatedLoader(clock, physics, self._random, self.main_cpu, self.main_queued, activity)
        self.validation = SimulatedLoader(
            clock, _validation(physics), self._random, self.main_cpu, self.main_queued, activity
        )
        if physics.model.on_device:
            self.device.mem_allocated_bytes = round(physics.model.mem_bytes * 0.87)
            self.device.mem_reserved_bytes = physics.model.mem_bytes

    def work(self, ns: float, threads: float = 1.0) -> None:
        """CPU work of the loop's own thread (and of `threads - 1` compute threads) for `ns` at speed 1."""
        now, crowding = self.clock.now(), self._crowding()
        self._occupy(now + round(self.physics.scaled(ns * self._jitter()) * crowding), threads, crowding)

    def to_device(self) -> tuple[int, int]:
        """Move the batch: queued from pinned memory, blocking until it is there from pageable memory.

        Returns the bytes moved, and how many of them from pageable memory.
        """
        physics = self.physics
        self.work(60_000)
        if not physics.model.on_device:
            return 0, 0
        pinned = physics.input.pin_memory
        bytes_s = (physics.gpu.pinned_bytes_s if pinned else physics.gpu.pageable_bytes_s) * physics.speed
        done = self.device.copy(physics.input.batch_bytes, bytes_s)
        if not pinned:
            self._occupy(done)
        return physics.input.batch_bytes, 0 if pinned else physics.input.batch_bytes

    def forward(self) -> None:
        """The forward pass, with the allocator's retries where memory is short."""
        self._step += 1
        self._heat()
        host = self.physics.host
        if host.retry_every and self._step % host.retry_every == 0:
            self.device.alloc_retries += 1
            self.drain()
            self.work(host.retry_ns)
        self._compute(self.physics.model.forward, self.physics.model.kernel_ns)

    def backward(self) -> None:
        """The backward pass; in the course of it the sums over all ranks begin, where they are made beside it."""
        before, buckets = self.device.drained_at(), self.physics.ranks.buckets if self.physics.ranks.overlap else 1
        self._compute(self.physics.model.backward, self.physics.model.kernel_ns)
        end = self.device.drained_at()
        self._ready = [before + (end - before) * (i + 1) // buckets for i in range(buckets)]

    def sum_gradients(self) -> None:
        """What is left of the sums over all ranks: one launch, and the device spins until the last part is there.

        The script's own sum begins only here; those beside backward have begun in the course of it.
        """
        assert self.exchange is not None
        self.work(self.physics.model.launch_ns)
        if not self.physics.ranks.overlap:
            self._ready = [self.device.drained_at()]
        self.device.spin(self.exchange.meet(self.rank, self._ready))

    def work_alone(self) -> None:
        """What only this rank does of its own."""
        plan = self.physics.ranks
        if plan.extra_ns and plan.late == self.rank and self._step % plan.extra_every == 0:
            self.work(plan.extra_ns)

    def update(self) -> None:
        """The optimizer's step."""
        model = self.physics.model
        kernels, kernel_ns = model.optimizer, model.optimizer_kernel_ns
        if not model.optimizer_fused:
            work = kernels * kernel_ns
            kernels = UNFUSED_OPS * model.param_tensors
            kernel_ns = max(LEAST_KERNEL_NS, work // kernels)
        self._compute(kernels, kernel_ns)

    def read_back(self) -> None:
        """Read device values one by one: the first waits for the whole queue, each for its own small kernel."""
        host, model = self.physics.host, self.physics.model
        self.drain()
        each = round((model.launch_ns + host.read_latency_ns) * self._crowding()) + host.read_kernel_ns
        now = self.clock.now()
        end = now + self.physics.scaled(host.reads * each * self._jitter())
        self.device.busy.add(now, end, host.read_kernel_ns / each)
        self.device.power.add(now, end, 0.1 * host.read_kernel_ns / each)
        self._occupy(end)

    def drain(self) -> None:
        """Wait until the device has done all that is queued. CUDA's default wait spins, so it costs CPU time."""
        self._occupy(self.device.drained_at())

    def evaluate(self) -> None:
        """One validation batch: a forward pass whose loss is read back."""
        self.to_device()
        self._compute(self.physics.model.forward, self.physics.model.kernel_ns)
        self.drain()

    def save(self) -> None:
        """A checkpoint: parameters read back, then written to disk by the loop's own thread."""
        plan = self.physics.episodes
        self.drain()
        ns = self.physics.scaled(plan.save_bytes / plan.save_bytes_s * 1e9 * self._jitter())
        now = self.clock.now()
        self.disk_written.add(now, now + ns, plan.save_bytes / ns)
        self.main_cpu.add(now, now + ns, 0.6)
        self.clock.wait_until(now + ns)

    def _compute(self, kernels: int, kernel_ns: int) -> None:
        model = self.physics.model
        if not model.on_device:
            self.work(kernels * kernel_ns * CPU_SLOWDOWN, threads=max(1.0, self.physics.machine.cores / 2))
            return
        slower = self.physics.gpu.clock_max_mhz / self.clock_mhz * self._jitter()
        slower /= 1 - self.physics.gpu.neighbour_share
        strength = model.intensity * (self.clock_mhz / self.physics.gpu.clock_max_mhz) ** 2
        crowding = self._crowding()
        launch_ns = round(self.physics.scaled(model.launch_ns * self._jitter()) * crowding)
        launched = self.device.launch(kernels, self.physics.scaled(kernel_ns * slower), launch_ns, strength)
        self._occupy(launched + self.physics.scaled(model.return_ns), crowding=crowding)

    def _crowding(self) -> float:
        """How much longer work of the loop's own thread takes for lack of cores."""
        return self.loader.crowding(self.clock.now(), extra=1.0)

    def _occupy(self, until: int, threads: float = 1.0, crowding: float = 1.0) -> None:
        now = self.clock.now()
        self.main_cpu.add(now, until, 1 / crowding)
        self.main_queued.add(now, until, 1 - 1 / crowding)
        if threads > 1.0:
            self.compute_cpu.add(now, until, threads - 1.0)
        self.clock.wait_until(until)

    def _jitter(self) -> float:
        return max(0.5, self._random.gauss(1.0, self.physics.jitter))

    def _heat(self) -> None:
        """Follow the temperature that the power drawn tends to, and lower the clock while it is above the limit."""
        gpu, now = self.physics.gpu, self.clock.now()
        passed = now - self._heated_at
        if passed < 200_000_000:
            return
        self._heated_at = now
        power = gpu.power_idle_w + (gpu.power_limit_w - gpu.power_idle_w) * self.device.power.mean(now - passed, now)
        target = gpu.ambient_c + gpu.c_per_w * power
        self.temp_c += (target - self.temp_c) * -math.expm1(-passed / 1e9 * self.physics.speed / gpu.warming_s)
        if self.clock_mhz < gpu.clock_max_mhz:
            self.throttled_ns += passed
        if self.temp_c > gpu.slowdown_c:
            self.clock_mhz = max(gpu.clock_min_mhz, self.clock_mhz - CLOCK_STEP_MHZ)
        elif self.temp_c < gpu.slowdown_c - 2:
            self.clock_mhz = min(gpu.clock_max_mhz, self.clock_mhz + CLOCK_STEP_MHZ)


def _validation(physics: Physics) -> Physics:
    """The validation loader's physics: its own workers, its own length."""
    plan: Episodes = physics.episodes
    source = msgspec.structs.replace(
        physics.input, workers=plan.validate_workers, decode_ns=plan.validate_decode_ns, batches=plan.validate_batches
    )
    return msgspec.structs.replace(physics, input=source)
