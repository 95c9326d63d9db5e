"""GPUs and machines over a whole trace, summed sample by sample."""

from __future__ import annotations

from gputop.diagnosis.device import BUSY_PCT, HARMFUL
from gputop.records import AnyRecord, Gpu, Host
from gputop.report.account import GpuAccount, HostAccount


class Gauge:
    """Sum, count and maximum of a gauge, as far as it was read."""

    __slots__ = ("count", "high", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.high: float | None = None

    def add(self, value: float | None) -> None:
        """Count a reading; None is none."""
        if value is None:
            return
        self.count += 1
        self.total += value
        if self.high is None or value > self.high:
            self.high = value

    @property
    def mean(self) -> float | None:
        """The mean of all readings."""
        return self.total / self.count if self.count else None


class GpuTally:
    """What one GPU's samples sum to."""

    def __init__(self) -> None:
        self.samples = 0
        self.util, self.memory, self.power, self.temp = Gauge(), Gauge(), Gauge(), Gauge()
        self.throttled = Gauge()

    def add(self, gpu: Gpu) -> None:
        """Take in a sample."""
        self.samples += 1
        if gpu.util_pct is None or 0 <= gpu.util_pct <= 100:
            self.util.add(gpu.util_pct)
        self.memory.add(gpu.mem_used_bytes)
        self.power.add(gpu.power_w)
        self.temp.add(gpu.temp_c)
        if gpu.throttle is not None and (gpu.util_pct is None or gpu.util_pct >= BUSY_PCT):
            self.throttled.add(100.0 if HARMFUL.intersection(gpu.throttle) else 0.0)

    def raise_to(self, gpu: Gpu) -> None:
        """Let a sample count for the maxima alone: it is one of many that were not read."""
        for gauge, value in (
            (self.util, gpu.util_pct), (self.memory, gpu.mem_used_bytes), (self.power, gpu.power_w),
            (self.temp, gpu.temp_c),
        ):  # fmt: skip
            if value is not None and gauge.high is not None:
                gauge.high = max(gauge.high, value)

    def account(self) -> GpuAccount:
        """The figures of all samples so far."""
        return GpuAccount(
            samples=self.samples,
            util_mean_pct=self.util.mean,
            util_max_pct=self.util.high,
            mem_peak_bytes=None if self.memory.high is None else int(self.memory.high),
            power_mean_w=self.power.mean,
            power_max_w=self.power.high,
            temp_max_c=self.temp.high,
            throttled_pct=self.throttled.mean,
        )


class HostTally:
    """What one machine's samples sum to."""

    def __init__(self) -> None:
        self.latest: Host | None = None
        self.samples = 0
        self.cpu, self.iowait, self.memory = Gauge(), Gauge(), Gauge()

    def add(self, host: Host) -> None:
        """Take in a sample."""
        self.latest = host
        self.samples += 1
        self.cpu.add(host.cpu_pct)
        self.iowait.add(host.iowait_pct)
        self.memory.add(host.mem_used_bytes)

    def account(self) -> HostAccount:
        """The figures of all samples so far."""
        latest = self.latest
        return HostAccount(
            host=latest.host if latest else "",
            samples=self.samples,
            cores=latest.cores if latest else None,
            cpu_mean_pct=self.cpu.mean,
            cpu_max_pct=self.cpu.high,
            iowait_mean_pct=self.iowait.mean,
            mem_peak_bytes=None if self.memory.high is None else int(self.memory.high),
            mem_total_bytes=latest.mem_total_bytes if latest else None,
        )


class Machines:
    """Every GPU and machine of a trace."""

    def __init__(self) -> None:
        self.gpus: dict[str, GpuTally] = {}
        self.hosts: dict[str, HostTally] = {}

    def add(self, record: AnyRecord) -> None:
        """Take in a record; those of other types count for nothing."""
        if isinstance(record, Gpu):
            self.gpus.setdefault(record.gpu_uuid, GpuTally()).add(record)
        elif isinstance(record, Host):
            self.hosts.setdefault(record.host, HostTally()).add(record)
