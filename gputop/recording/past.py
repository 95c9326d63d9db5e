"""What a viewer would hold at a moment of a recording: everything needed to draw and judge that moment."""

from __future__ import annotations

import msgspec

from gputop.records import AnyRecord, Run, Verdict
from gputop.tiers import Sketch

RECORDED = "recorded"
"""Kind of the event that marks a run of the command for which `gputop run --record` records."""

WORKER = "worker"
"""The phase of lines that were found in a loader worker."""

WORKER_NS = 600_000_000_000
"""How long the lines of a loader worker, which is looked into now and then, are told: what it does for a sample is the
same all along."""

Cell = tuple[int, int, float, float, float]
"""A column of a history: (column, count, total, low, high); column k covers [k * column_ns, (k + 1) * column_ns)."""


class Tier(msgspec.Struct, frozen=True, kw_only=True):
    """Train steps of a run, summed: `steps` of them that began from `t` on, within about `width_ns`."""

    run_id: str
    t: int
    width_ns: int
    steps: int
    dur_ns: int
    min_ns: int
    max_ns: int
    samples: int
    phases_ns: dict[str, int]
    sketch: Sketch | None = None


class RunPast(msgspec.Struct, frozen=True, kw_only=True):
    """A run before its first exact record: totals of train steps, and tiers for its history.

    `changes` are the (t, cause) at which a recorded verdict began to hold, `said` the one in force.
    """

    first_t: int | None = None
    train_steps: int = 0
    train_ns: int = 0
    samples: int = 0
    phases_ns: dict[str, int] = {}
    tiers: tuple[Tier, ...] = ()
    changes: tuple[tuple[int, str], ...] = ()
    said: Verdict | None = None
    known_ns: int | None = None
    """Up to when `changes` are known; None: up to the moment."""
    last_ns: int | None = None
    """When the last step before the first exact record ended; None where none is known."""
    ended: str | None = None
    """How the run ended ("ended", "lost") where that was said before the first exact record."""
    backward_loaders: tuple[int | None, ...] = ()
    """Loaders whose batches were followed by backward: what tells training from evaluation."""


class GpuPast(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU's histories before the first exact record, in percent."""

    util: tuple[Cell, ...] = ()
    peak: tuple[Cell, ...] = ()
    memory: tuple[Cell, ...] = ()


class HostPast(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's histories before the first exact record, in percent."""

    cpu: tuple[Cell, ...] = ()
    iowait: tuple[Cell, ...] = ()


class Past(msgspec.Struct, frozen=True, kw_only=True):
    """A moment `t_ns` of a recording that began at `from_ns`.

    `records` holds what describes everything known (latest run, loader, model, alive, profile, sampler), then every
    record of the last seconds, in order of arrival. What came before is in `runs`, `gpus` (by uuid) and `hosts`.
    """

    t_ns: int
    from_ns: int
    column_ns: int
    records: tuple[AnyRecord, ...]
    seq: int = 0
    """Every record numbered up to it is past; of those after it up to `upto_seq`, the ones that were over by `t_ns`."""
    upto_seq: int = 0
    runs: dict[str, RunPast] = {}
    gpus: dict[str, GpuPast] = {}
    hosts: dict[str, HostPast] = {}


class RunSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a recording. `steps` counts train steps; `ended` is "ended", "lost" or None; `meant`: the recording
    was made for it, and not for what else went on."""

    run: Run
    first_ns: int
    last_ns: int
    steps: int
    ended: str | None = None
    meant: bool = False


class Info(msgspec.Struct, frozen=True, kw_only=True):
    """What a recording holds. `closed`: ended cleanly; `being_written`: a recorder adds to it now."""

    from_ns: int
    to_ns: int
    runs: tuple[RunSpan, ...]
    steps: int
    records: int
    simulated: bool
    being_written: bool
    closed: bool
    schema: int
    gputop_version: str | None
    hosts: tuple[str, ...]
    size_bytes: int
