"""The record types: the one schema that gputop's parts speak, on the wire, on pipes, in the timeline and in files.

Times are Unix epoch nanoseconds; units stand in the names; what is unknown is absent (None), never zero.
A reader ignores fields and types that it does not know and refuses only a higher major schema.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any, ClassVar

import msgspec

SCHEMA = 1
"""Major version of the schema; fields and types are only ever added within one."""


class Record(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True, tag_field="type", gc=False):
    """Base of every record: `t` is when what it describes began.

    Records hold plain values and no way back to themselves, so the garbage collector need not look at them: with a
    thousand ranks' steps held, each of its full passes would take longer than judging them all.
    """

    t: int


class Run(Record, tag="run", frozen=True, kw_only=True):
    """One training process (a rank). A later one with the same run_id supersedes it field by field.

    `start_ticks`: when the process started, in clock ticks since boot; a pid alone may be another process's tomorrow.
    """

    run_id: str
    pid: int
    host: str
    schema: int = 0
    offset_ns: int | None = None
    start_ns: int | None = None
    gputop_version: str | None = None
    script: str | None = None
    argv: list[str] | None = None
    user: str | None = None
    python: str | None = None
    framework: str | None = None
    framework_version: str | None = None
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None
    device: str | None = None
    gpu_uuid: str | None = None
    gpu_pci: str | None = None
    gpu_name: str | None = None
    gpu_visible: int | None = None
    cuda_visible: str | None = None
    cuda_order: str | None = None
    cores_allowed: int | None = None
    cores: int | None = None
    tracer_attached: bool | None = None
    label: str | None = None
    hooks: list[str] | None = None
    simulated: bool | None = None
    sampled: bool | None = None
    detail_every: int | None = None
    start_ticks: int | None = None
    hip_visible: str | None = None
    rocr_visible: str | None = None
    in_job: bool | None = None


class Alive(Record, tag="alive", frozen=True, kw_only=True):
    """Once a second from the publisher, steps or no steps."""

    run_id: str
    steps: int
    open_phase: str | None = None
    open_since_ns: int | None = None
    dropped: int | None = None
    stack: list[str] | None = None


class Loader(Record, tag="loader", frozen=True, kw_only=True):
    """A data loader's configuration and its workers of the moment."""

    run_id: str
    loader_id: int
    num_workers: int | None = None
    prefetch_factor: int | None = None
    pin_memory: bool | None = None
    persistent_workers: bool | None = None
    in_order: bool | None = None
    batch_size: int | None = None
    drop_last: bool | None = None
    start_method: str | None = None
    worker_pids: list[int] | None = None
    dataset: str | None = None
    dataset_path_fs: str | None = None
    dataset_disk: str | None = None
    iterable: bool | None = None
    batches: int | None = None


class Model(Record, tag="model", frozen=True, kw_only=True):
    """What the optimizer trains: where its parameters are and what they are made of."""

    run_id: str
    name: str | None = None
    param_count: int | None = None
    param_bytes: int | None = None
    devices: dict[str, int] | None = None
    dtypes: dict[str, int] | None = None
    on_cpu: list[str] | None = None
    autocast: bool | None = None
    train_mode: bool | None = None
    compiled: bool | None = None
    matmul_tf32: bool | None = None
    optimizer: str | None = None
    optimizer_fused: bool | None = None
    param_tensors: int | None = None


class SyncSite(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Where a step read a device value back: at most five a step, the costliest first."""

    site: str
    call: str
    count: int
    ns: int
    source: str | None = None


class Step(Record, tag="step", frozen=True, kw_only=True):
    """One pass of a loop, from a request for a batch to the next. Phases are exclusive host times, the rest `other`."""

    run_id: str
    n: int
    dur_ns: int
    phases_ns: dict[str, int]
    gpu_ns: dict[str, int] | None = None
    gpu_idle_ns: dict[str, int] | None = None
    gpu_share: dict[str, float] | None = None
    queue_empty: float | None = None
    samples: int | None = None
    batches: int | None = None
    kind: str | None = None
    had_backward: bool | None = None
    partial: bool | None = None
    optimizer_step: bool | None = None
    loader_id: int | None = None
    epoch: int | None = None
    first_of_epoch: bool | None = None
    ready_batches: int | None = None
    late_ready: int | None = None
    sync_count: int | None = None
    sync_ns: int | None = None
    sync_sites: list[SyncSite] | None = None
    h2d_bytes: int | None = None
    h2d_pageable_bytes: int | None = None
    h2d_blocking_bytes: int | None = None
    d2h_bytes: int | None = None
    mem_allocated_bytes: int | None = None
    mem_reserved_bytes: int | None = None
    alloc_retries: int | None = None
    shapes: int | None = None
    profiled: bool | None = None
    host_cpu_ns: int | None = None
    sampled: str | None = None


class Fold(Record, tag="fold", frozen=True, kw_only=True):
    """Steps summed over one second: those that a full ring gave up, and those that were only counted and timed."""

    run_id: str
    steps: int
    dur_ns: int
    phases_ns: dict[str, int]
    min_ns: int | None = None
    max_ns: int | None = None
    samples: int | None = None
    kind: str | None = None
    counted: bool | None = None


class SiteSample(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A line of the loop's own code and how often it was found running."""

    phase: str
    site: str
    samples: int
    cpu_ns: int | None = None
    in_torch: int | None = None


class Site(Record, tag="site", frozen=True, kw_only=True):
    """Once a second: where the loop's own time goes, by stack samples of the training thread."""

    run_id: str
    sites: list[SiteSample]


class Profile(Record, tag="profile", frozen=True, kw_only=True):
    """The answer to a profiling request."""

    run_id: str
    steps: int
    top_ops: list[dict[str, Any]] | None = None
    top_kernels: list[dict[str, Any]] | None = None
    kernel_count: int | None = None
    mean_kernel_ns: int | None = None
    gpu_busy_pct: float | None = None
    copies: dict[str, Any] | None = None
    syncs: int | None = None
    wait_sites: list[dict[str, Any]] | None = None


class GpuProcess(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A process on a GPU, as the driver lists it; `start_ticks` as in `Run`."""

    pid: int
    mem_bytes: int | None = None
    sm_pct: float | None = None
    name: str | None = None
    user: str | None = None
    cmdline: str | None = None
    start_ticks: int | None = None


class Gpu(Record, tag="gpu", frozen=True, kw_only=True):
    """One sample of one device. `unsupported` and `failed` name the fields that are absent for those reasons."""

    host: str
    gpu_uuid: str
    gpu_index: int | None = None
    gpu_pci: str | None = None
    name: str | None = None
    util_pct: float | None = None
    mem_util_pct: float | None = None
    mem_used_bytes: int | None = None
    mem_total_bytes: int | None = None
    mem_reserved_bytes: int | None = None
    mem_shared: bool | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_limit_default_w: float | None = None
    temp_c: float | None = None
    temp_slowdown_c: float | None = None
    sm_clock_mhz: int | None = None
    sm_clock_max_mhz: int | None = None
    throttle: list[str] | None = None
    throttled_ns: dict[str, int] | None = None
    pcie_gen: int | None = None
    pcie_gen_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_rx_bytes_s: float | None = None
    pcie_tx_bytes_s: float | None = None
    nvlink_rx_bytes_s: float | None = None
    nvlink_tx_bytes_s: float | None = None
    power_instant_w: float | None = None
    mem_temp_c: float | None = None
    sm_active_pct: float | None = None
    sm_occupancy_pct: float | None = None
    tensor_active_pct: float | None = None
    dram_active_pct: float | None = None
    enc_pct: float | None = None
    dec_pct: float | None = None
    energy_j: float | None = None
    processes: list[GpuProcess] | None = None
    mig: list[dict[str, Any]] | None = None
    xid: int | None = None
    xid_ns: int | None = None
    lost: bool | None = None
    unsupported: list[str] | None = None
    failed: list[str] | None = None
    simulated: bool | None = None


class Burst(Record, tag="burst", frozen=True, kw_only=True):
    """The driver's own fine-grained utilization samples since the last poll; `dt_ns` are offsets from `t`."""

    host: str
    gpu_uuid: str
    dt_ns: list[int]
    util_pct: list[float]


class Disk(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One disk, by the kernel's name for it, over the interval."""

    name: str
    busy_pct: float | None = None
    await_ns: int | None = None
    read_bytes_s: float | None = None
    write_bytes_s: float | None = None


class Host(Record, tag="host", frozen=True, kw_only=True):
    """One sample of the machine. `cpu_pct` counts all cores as 100."""

    host: str
    cpu_pct: float | None = None
    user_pct: float | None = None
    system_pct: float | None = None
    iowait_pct: float | None = None
    steal_pct: float | None = None
    per_core_pct: list[float] | None = None
    cores: int | None = None
    load1: float | None = None
    mem_used_bytes: int | None = None
    mem_total_bytes: int | None = None
    swap_used_bytes: int | None = None
    swap_in_bytes_s: float | None = None
    disk_read_bytes_s: float | None = None
    disk_write_bytes_s: float | None = None
    disk_busy_pct: float | None = None
    disk_await_ns: int | None = None
    disks: list[Disk] | None = None
    net_recv_bytes_s: float | None = None
    net_sent_bytes_s: float | None = None
    cpu_quota_cores: float | None = None
    throttled_ns: int | None = None
    psi_cpu_pct: float | None = None
    psi_io_pct: float | None = None
    psi_mem_pct: float | None = None
    shm_used_bytes: int | None = None
    shm_total_bytes: int | None = None
    unsupported: list[str] | None = None
    failed: list[str] | None = None


class Worker(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A loader worker of a training process, seen from outside. `wait_pct`: wall time it was ready without a core."""

    pid: int
    cpu_pct: float | None = None
    system_pct: float | None = None
    threads: int | None = None
    state: str | None = None
    read_bytes_s: float | None = None
    rss_bytes: int | None = None
    wait_pct: float | None = None
    rchar_bytes_s: float | None = None


class Process(Record, tag="process", frozen=True, kw_only=True):
    """One sample of a process. `cpu_pct` counts one core as 100; `tree_cpu_pct`: with its children, ended ones too;
    `start_ticks` as in `Run`."""

    host: str
    pid: int
    run_id: str | None = None
    name: str | None = None
    cmdline: str | None = None
    user: str | None = None
    cpu_pct: float | None = None
    main_thread_cpu_pct: float | None = None
    main_thread_wait_pct: float | None = None
    tree_cpu_pct: float | None = None
    threads: int | None = None
    rss_bytes: int | None = None
    state: str | None = None
    read_bytes_s: float | None = None
    rchar_bytes_s: float | None = None
    cores_allowed: int | None = None
    stack: list[str] | None = None
    workers: list[Worker] | None = None
    start_ticks: int | None = None
    framework: str | None = None


class Sampler(Record, tag="sampler", frozen=True, kw_only=True):
    """How a sampler fares: "ok", "slow", "silent", "restarted" or "absent", and why."""

    host: str
    backend: str
    state: str
    silent_ns: int | None = None
    call: str | None = None
    self_ns: int | None = None
    cpu_pct: float | None = None
    every_ns: int | None = None
    devices: int | None = None
    why: str | None = None


class Event(Record, tag="event", frozen=True, kw_only=True):
    """Something that happened at a moment, of one of KINDS: to a run, to a GPU, or to the machine."""

    KINDS: ClassVar[tuple[str, ...]] = (
        "epoch", "eval", "checkpoint", "marker", "recompile", "gc", "alloc_retry", "oom", "error", "exit",
        "lost_process", "worker_start", "worker_exit", "clock", "gap", "xid",
    )  # fmt: skip

    kind: str
    run_id: str | None = None
    label: str | None = None
    dur_ns: int | None = None
    gpu_uuid: str | None = None


class Request(Record, tag="request", frozen=True, kw_only=True):
    """Viewer to publisher: "hello", "backfill", "profile" or "mark"."""

    kind: str
    run_id: str | None = None
    viewer: str | None = None
    from_seq: int | None = None
    limit: int | None = None
    steps: int | None = None
    text: str | None = None


class Reply(Record, tag="reply", frozen=True, kw_only=True):
    """Publisher to one viewer. For "hello": the run's seq range still held; for "backfill": the seq it ends before."""

    kind: str
    ok: bool
    run_id: str | None = None
    from_seq: int | None = None
    next_seq: int | None = None
    why: str | None = None


class Evidence(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """One signal for or against a cause. `value` and `threshold` are in `unit`; None is not known."""

    signal: str
    value: float | str | None = None
    unit: str | None = None
    threshold: float | None = None
    supports: bool = True
    source: str | None = None
    window_s: float | None = None


class Advice(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """What to do, why, and the code where there is some."""

    do: str
    why: str | None = None
    code: str | None = None


class RunnerUp(msgspec.Struct, kw_only=True, frozen=True):
    """The cause that came second and the share it explains."""

    cause: str
    share_pct: float | None = None


class Verdict(Record, tag="verdict", frozen=True, kw_only=True):
    """What gputop concluded: what holds the run back, how we know, what to change, what it would gain."""

    run_id: str
    cause: str
    family: str
    headline: str
    confidence: float
    share_pct: float | None = None
    speedup_limit: float | None = None
    evidence: list[Evidence] = []
    advice: list[Advice] = []
    runner_up: RunnerUp | None = None
    since_ns: int | None = None
    clock: str | None = None
    tentative: bool | None = None
    simulated: bool | None = None
    notices: list[str] = []


AnyRecord = (
    Run | Alive | Loader | Model | Step | Fold | Site | Profile | Gpu | Burst | Host | Process | Sampler | Event
    | Request | Reply | Verdict
)  # fmt: skip
"""Every record type, as a union for decoding."""

TYPES: dict[str, type[Record]] = {
    str(cls.__struct_config__.tag): cls
    for cls in (
        Run, Alive, Loader, Model, Step, Fold, Site, Profile, Gpu, Burst, Host, Process, Sampler, Event, Request,
        Reply, Verdict,
    )
}  # fmt: skip
"""Record types by their tag."""


MAX_INT = 2**63
"""What no count of nanoseconds or bytes reaches."""


def end_of(record: Record) -> int:
    """When a record could have been known: a step when it was over, any other at its moment."""
    return record.t + record.dur_ns if isinstance(record, Step) else record.t


def implausible(record: Record) -> str | None:
    """Why a record's figures can't be meant, in words: negative times, durations or counts, or ones past 2^63."""
    if not 0 <= record.t < MAX_INT:
        return f"t is {record.t}"
    if type(record) is Step:
        if not 0 <= record.dur_ns < MAX_INT:
            return f"dur_ns is {record.dur_ns}"
        if (phases := record.phases_ns) and not 0 <= min(times := phases.values()) <= max(times) < MAX_INT:
            return "a phase is negative or beyond all bounds"
        if record.samples is not None and not 0 <= record.samples < MAX_INT:
            return f"samples is {record.samples}"
        return None
    if isinstance(record, Fold) and (record.steps < 0 or not 0 <= record.dur_ns < MAX_INT):
        return "steps or dur_ns is negative"
    return None


def supersede(old: Run, new: Run) -> Run:
    """The run as known after `new`: its fields win where they are present."""
    changes = {name: value for name in new.__struct_fields__ if (value := getattr(new, name)) is not None}
    return msgspec.structs.replace(old, **changes)


def clean(text: str, limit: int = 200) -> str:
    """Text from outside, safe for a terminal: control characters shown as `\\x1b`, whatever else could hide, reorder or
    overdraw what is shown as "?", at most `limit` characters."""
    out = text[: limit + 1]
    if not (out.isascii() and out.isprintable()):
        out = "".join(_visible(out))
    return out if len(out) <= limit else out[: limit - 1] + "…"


def _visible(text: str) -> Iterator[str]:
    marks = MOST_MARKS  # none before the first letter: it would be drawn on what is not this text's
    for char in text:
        kind = unicodedata.category(char)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if kind == "Cc":
            yield f"\\x{ord(char):02x}"
        elif kind in _NO_GLYPH or ord(char) in _OF_UNSURE_WIDTH:
            yield "?"
        elif marks <= MOST_MARKS and not 0xFE00 <= ord(char) <= 0xFE0F:
            yield char


MOST_MARKS = 2
"""Accents that a letter keeps: more of them, one upon the other, are drawn over the lines above."""

_NO_GLYPH = frozenset(("Cf", "Cs", "Co", "Cn", "Zl", "Zp"))
"""Unicode's categories of what has no picture of its own: zero-width characters and those that turn the writing
direction, halves of pairs, characters of private use or of a Unicode later than this Python's, line ends."""

_OF_UNSURE_WIDTH = frozenset((0x034F, 0x115F, 0x1160, 0x180E, 0x3164, 0xFFA0, *range(0x1F3FB, 0x1F400)))
"""Fillers and skin tones: one terminal gives them no cell, another two. Variation selectors, which do the same, go."""
