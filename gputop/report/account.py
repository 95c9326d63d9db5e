"""What a run, a GPU or a machine did over the whole of a trace: figures that no single window can show."""

from __future__ import annotations

import msgspec


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """How long `steps` training steps took, in ms; percentiles are None where no step was seen singly."""

    steps: int
    max: float
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None


class Epoch(msgspec.Struct, frozen=True, kw_only=True):
    """One pass over the data: from its first step to the next pass's; `first_step_ms` is what starting it cost."""

    epoch: int | None
    from_ns: int
    to_ns: int
    steps: int | None
    first_step_ms: float | None

    @property
    def steps_per_s(self) -> float | None:
        """Its steps over its wall time, evaluation and checkpoints in it included."""
        span = self.to_ns - self.from_ns
        return self.steps * 1e9 / span if self.steps and span > 0 else None


class Episode(msgspec.Struct, frozen=True, kw_only=True):
    """What comes every so often: how often, how far apart in steps or seconds, how long it takes, its share of time."""

    kind: str
    share_pct: float
    count: int | None = None
    period_steps: int | None = None
    period_s: float | None = None
    mean_ms: float | None = None


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """A run over its whole length.

    `every` is of all train steps; `steady` leaves out the run's warm-up (`warmup_steps` of them) and the first step of
    each later epoch (`epoch_firsts`). `train_ns` is the sum of all train steps, `phases_ns` its parts without `other`.
    """

    from_ns: int | None = None
    to_ns: int | None = None
    steps: int = 0
    train_ns: float = 0.0
    samples: int = 0
    phases_ns: dict[str, float] = {}
    every: Spread | None = None
    steady: Spread | None = None
    warmup_steps: int = 0
    epoch_firsts: int = 0
    epochs: tuple[Epoch, ...] = ()
    episodes: tuple[Episode, ...] = ()


class GpuAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU over the whole trace. `throttled_pct`: share of its busy samples with clocks lowered by a fault."""

    samples: int = 0
    util_mean_pct: float | None = None
    util_max_pct: float | None = None
    mem_peak_bytes: int | None = None
    power_mean_w: float | None = None
    power_max_w: float | None = None
    temp_max_c: float | None = None
    throttled_pct: float | None = None


class HostAccount(msgspec.Struct, frozen=True, kw_only=True):
    """A machine over the whole trace."""

    host: str
    samples: int = 0
    cores: int | None = None
    cpu_mean_pct: float | None = None
    cpu_max_pct: float | None = None
    iowait_mean_pct: float | None = None
    mem_peak_bytes: int | None = None
    mem_total_bytes: int | None = None
