"""The view: one immutable picture of everything watched, at one moment. All output is drawn from it alone.

All histories share one time axis: column `k` covers [k * column_ns, (k + 1) * column_ns) of epoch time; a history is a
tuple whose last entry is column `last_column`; None stands where nothing was measured.
"""

from __future__ import annotations

import msgspec

from gputop.recording.state import RecordingState
from gputop.records import Alive, Event, Gpu, Host, Loader, Model, Process, Profile, Run, Sampler, Site, Verdict

History = tuple[float | None, ...]
"""One value a column of the shared axis, oldest first."""


class Share(msgspec.Struct, frozen=True):
    """A bucket of the ledger: its share of wall time (all buckets sum to 100) and its mean per step."""

    phase: str
    pct: float
    ms: float


class Segment(msgspec.Struct, frozen=True):
    """A stretch of the run under one verdict."""

    from_ns: int
    to_ns: int
    cause: str


class Cursor(msgspec.Struct, frozen=True, kw_only=True):
    """Where on the time axis a view stands: `at_ns`, of the [from_ns, to_ns] that can be gone to.

    `live`: it stands at the newest moment of something that goes on, and new data moves it. `playing`: it moves by
    itself, at `speed` (1.0 is real time). `replay`: a recording is read; else a live source is looked back at.
    `at_end`: the end of the recording is reached; one that is still written is then followed, and `live` too.
    `skip_idle`: stretches without a step are passed over while playing.
    """

    from_ns: int
    to_ns: int
    at_ns: int
    live: bool
    playing: bool
    speed: float
    replay: bool
    at_end: bool = False
    skip_idle: bool = False
    causes: tuple[Segment, ...] = ()
    """The first run's verdicts over the whole span: as recorded, or as judged where none were; empty while unknown."""
    marks: tuple[tuple[int, str], ...] = ()
    """Event marks (moment, kind) over the whole span."""
    meant: frozenset[str] = frozenset()
    """The runs that the recording was made for, where it says so; none for what is live."""


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """One training run as shown. Times in ms are of the window's train steps.

    `state` is "starting" (no step yet), "training", "stalled" (no step for long), "ended" (it said goodbye) or "lost"
    (the process vanished without a word).
    """

    run: Run
    state: str
    verdict: Verdict
    steps_total: int = 0
    step_ms: dict[str, float] | None = None
    steps_per_s: float | None = None
    samples_per_s: float | None = None
    ledger: tuple[Share, ...] = ()
    outside_ns: int | None = None
    loader: Loader | None = None
    model: Model | None = None
    process: Process | None = None
    alive: Alive | None = None
    gpu_uuid: str | None = None
    gpu_match: str | None = None
    clock: str | None = None
    gaps: int = 0
    dropped: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    step_history: History = ()
    step_max_history: History = ()
    cause_history: tuple[str | None, ...] = ()
    segments: tuple[Segment, ...] = ()
    phase_history: dict[str, History] = {}
    profile: Profile | None = None
    """The latest answer to a request for a profile."""
    worker: Site | None = None
    """Where a loader worker was found working when it was last looked into."""
    said: Verdict | None = None
    """What was said at the time, where a recording tells and its cause is not that of `verdict`."""


class GpuView(msgspec.Struct, frozen=True, kw_only=True):
    """One GPU as shown: its latest sample, that sample's age, its histories (percent), and what its sampler suffers."""

    gpu: Gpu
    age_ns: int
    util_history: History = ()
    util_max_history: History = ()
    mem_history: History = ()
    burst_note: str | None = None
    trouble: str | None = None


class HostView(msgspec.Struct, frozen=True, kw_only=True):
    """The machine as shown."""

    host: Host
    age_ns: int
    cpu_history: History = ()
    iowait_history: History = ()


class View(msgspec.Struct, frozen=True, kw_only=True):
    """Everything watched, at `now_ns`. `waiting` says in words what is awaited when there is no run to show."""

    now_ns: int
    source: str
    hostname: str
    column_ns: int
    last_column: int
    started_ns: int
    simulated: bool = False
    runs: tuple[RunView, ...] = ()
    gpus: tuple[GpuView, ...] = ()
    host: HostView | None = None
    samplers: tuple[Sampler, ...] = ()
    events: tuple[Event, ...] = ()
    warnings: tuple[str, ...] = ()
    unwatched: tuple[Process, ...] = ()
    """Busy processes with a framework loaded that are no run's."""
    waiting: str | None = None
    cursor: Cursor | None = None
    """None where there is no time to move in."""
    recording: RecordingState | None = None
    """The recording that is being made of this, if any."""


def run_shown(view: View, run_id: str | None) -> RunView | None:
    """The run that is meant: the selected one, else the first that trains, else, of those that trained last, one; of
    those that a recording was made for, where there are such."""
    for run in view.runs:
        if run.run.run_id == run_id:
            return run
    runs = meant(view)
    for run in runs:
        if run.state in GOES_ON:
            return run
    latest = max((run.last_ns or 0 for run in runs), default=0)
    return next((run for run in runs if (run.last_ns or 0) >= latest - TOGETHER_NS), None)


def meant(view: View) -> tuple[RunView, ...]:
    """The runs that the recording was made for, as far as they are there yet; else all."""
    own = () if view.cursor is None else view.cursor.meant
    return tuple(run for run in view.runs if run.run.run_id in own) or view.runs


GOES_ON = ("training", "stalled")

TOGETHER_NS = 10_000_000_000
"""Ranks of one job end so close to one another."""
