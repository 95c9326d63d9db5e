"""What is held of one run, one GPU, one machine: exact recent records, columns beyond."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from itertools import islice

import msgspec

from gputop.recording.kinds import kind_of, ran_backward
from gputop.recording.past import GpuPast, HostPast, RunPast
from gputop.records import (
    Alive,
    Burst,
    Event,
    Fold,
    Gpu,
    Host,
    Loader,
    Model,
    Process,
    Profile,
    Run,
    Site,
    Step,
    Verdict,
)
from gputop.thinned import evenly, within_seconds
from gputop.tiers import Columns
from gputop.window import Peer

S = 1_000_000_000

EXACT_NS = 120 * S
"""Exact records are kept this long; older ones live on in columns."""

EXACT_STEPS = 4096
"""Exact steps kept for a rank, however fast it runs."""

MIN_STEPS = 64
"""Exact steps kept for a rank however many ranks there are: enough to judge it."""

WINDOW_NS = 10 * S
WINDOW_STEPS = 20
"""A window is the last WINDOW_NS or WINDOW_STEPS steps, whichever reaches further back ..."""

EPISODIC = frozenset(("eval", "checkpoint"))
EPISODE_SHARE = 0.05
"""... or reaches back over a whole period of what comes every so many steps: to the last but one step of which an
evaluation or a save took this part ..."""

EPISODES = 64
"""Of those the latest are remembered."""

LONG_RATIO = 3.0
"""... or to the earliest of the last LONG_STEPS steps that took this many times the usual one: what one of them costs
in the mean shows only over several ..."""

LONG_STEPS = 12
LEAST_LONG = 3
"""... where there are at least LEAST_LONG within its reach ..."""

RARE_SHARE = 0.2
"""... and they are no more than this part of its steps: where more are, a window has enough of them anyway."""

USUAL_RATE = 0.05
"""How far a single step moves what is taken to be the usual one: some twenty of another length change it."""

PEER_SAMPLES = 10
"""Samples of a process that the windows of its peers show."""

WINDOW_MAX_STEPS = 500
WINDOW_MIN_STEPS = 5
"""... but no more than EXACT_NS or WINDOW_MAX_STEPS, unless that left fewer than WINDOW_MIN_STEPS."""

WHOLE_MAX_STEPS = 20_000
"""Steps of all that is held exactly, in stretches of which some stand for others."""

FOLDS = 256
"""Sums of steps kept for the rates of a window: more than a window's seconds."""

ALIVES = 128
"""Signs of life kept, one a second: as long as exact steps."""

LOOKS = 180
"""Looks into a loader worker kept: twelve minutes of a run watched by samples, which looks every four seconds."""

GPU_PERCENTS = ("util_pct", "mem_util_pct", "sm_active_pct", "sm_occupancy_pct", "tensor_active_pct", "dram_active_pct")

COLUMNS = 1800
"""Columns of history kept: an hour of 2 s."""


class RunTrack:
    """All that is held of one run."""

    def __init__(self, run: Run, column_ns: int) -> None:
        self.run = run
        self.loaders: dict[int, Loader] = {}
        self.model: Model | None = None
        self.alive: Alive | None = None
        self.profile: Profile | None = None
        self.alives: deque[Alive] = deque(maxlen=ALIVES)
        self.steps: deque[Step] = deque()
        self.folds: deque[Fold] = deque(maxlen=FOLDS)
        self.sites: deque[Site] = deque(maxlen=180)
        self.workers: deque[Site] = deque(maxlen=LOOKS)
        self.process: deque[Process] = deque(maxlen=180)
        self.events: deque[Event] = deque(maxlen=512)
        self.said: deque[Verdict] = deque(maxlen=4096)
        self.fine = Columns(column_ns, COLUMNS)
        self.phases: dict[str, float] = {}
        self.first_t: int | None = None
        self.last_end: int | None = None
        self.train_steps = 0
        self.train_ns = 0
        self.samples = 0
        self.backward_loaders: set[int | None] = set()
        self.gaps = 0
        self.forgot = False
        self.ended: str | None = None
        self._recent: tuple[int, int, int | None, tuple[Step, ...]] = (0, -1, None, ())
        self._episodes: deque[Step] = deque(maxlen=EPISODES)
        self._long: deque[Step] = deque(maxlen=LONG_STEPS)
        self._usual_ns = 0.0
        self._peer: Peer | None = None
        self._taken = 0

    def kind(self, step: Step) -> str:
        """What a step is: as its record says, else "train" when its loop is known to run backward (or none does)."""
        return kind_of(step, self.backward_loaders)

    def add_step(self, step: Step, limit: int, keep_ns: int = EXACT_NS) -> None:
        """Take in a finished step; of all, the latest `limit` that ended at most `keep_ns` before it stay exact."""
        self._taken += 1
        if ran_backward(step):
            self.backward_loaders.add(step.loader_id)
        if step.kind is None and step.loader_id in self.backward_loaders:
            step = _with_kind(step, "train")  # for good: of the others it is decided when they are asked for
        end = step.t + step.dur_ns
        steps = self.steps
        if steps and step.t < steps[-1].t:
            self._insert_late(step)
        else:
            steps.append(step)
        while len(steps) > limit or (len(steps) > MIN_STEPS and steps[0].t + steps[0].dur_ns < end - keep_ns):
            steps.popleft()
            self.forgot = True
        if self.first_t is None or step.t < self.first_t:
            self.first_t = step.t
        if self.last_end is None or end > self.last_end:
            self.last_end = end
        if not step.partial and self.kind(step) == "train":
            phases = within(step.phases_ns, step.dur_ns)
            self._count(step.t, 1, step.dur_ns, phases, step.dur_ns, step.dur_ns, step.samples or 0)
            if not EPISODIC.isdisjoint(phases) and _of_note(phases, step.dur_ns):
                self._episodes.append(step)
            elif step.dur_ns > LONG_RATIO * self._usual_ns > 0:
                self._long.append(step)
            self._usual_ns += USUAL_RATE * self._usual_ns * (1 if step.dur_ns > self._usual_ns else -1)
            self._usual_ns = self._usual_ns or step.dur_ns

    def add_fold(self, fold: Fold) -> None:
        """Take in steps that the publisher had summed before anyone listened."""
        if fold.steps <= 0:
            return
        if self.first_t is None or fold.t < self.first_t:
            self.first_t = fold.t
        if fold.kind in (None, "train"):
            self.folds.append(fold)
            self._count(
                fold.t,
                fold.steps,
                fold.dur_ns,
                within(fold.phases_ns, fold.dur_ns),
                fold.max_ns or 0,
                fold.min_ns or 0,
                fold.samples or 0,
            )

    def restore(self, past: RunPast) -> None:
        """Begin with what came before the first exact record."""
        self.first_t, self.last_end, self.ended = past.first_t, past.last_ns, past.ended
        self.train_steps, self.train_ns, self.samples = past.train_steps, past.train_ns, past.samples
        self.phases = dict(past.phases_ns)
        self.backward_loaders = set(past.backward_loaders)
        for tier in sorted(past.tiers, key=lambda tier: tier.t):
            bucket = self.fine.at(tier.t)
            if bucket is not None:
                bucket.add(tier.dur_ns, tier.steps, tier.max_ns, tier.min_ns)
                bucket.weight += tier.samples
                bucket.add_parts(tier.phases_ns)
        if past.said is not None:
            self.said.append(past.said)

    def _count(
        self, t: int, steps: int, dur_ns: int, phases: dict[str, int], high: int, low: int, samples: int
    ) -> None:
        self.train_steps += steps
        self.train_ns += dur_ns
        self.samples += samples
        for name, ns in phases.items():
            self.phases[name] = self.phases.get(name, 0) + ns
        bucket = self.fine.at(t)
        if bucket is not None:
            bucket.add(dur_ns, steps, high, low)
            bucket.weight += samples
            bucket.add_parts(phases)

    def _insert_late(self, step: Step) -> None:
        steps = self.steps
        index = len(steps)
        while index and steps[index - 1].t > step.t:
            index -= 1
        steps.insert(index, step)

    def recent(self, now_ns: int, since_ns: int | None = None) -> tuple[Step, ...]:
        """The finished steps of the window that ends now, oldest first, with their kinds decided; where only some of a
        stretch are held, an even sample of its train steps. It reaches back to `since_ns` at least."""
        asked = (now_ns, self._taken, since_ns)
        if self._recent[:3] != asked:
            self._recent = (*asked, self._cut(now_ns, since_ns))
        return self._recent[3]

    def period_since(self, now_ns: int) -> int | None:
        """When the last but one step with an evaluation or a save of note began, or the only one, or the earliest of
        the last few long ones; None where no window reaches it."""
        if not self._episodes and not self._long:
            return None
        ended = [step for step in self._episodes if step.t + step.dur_ns <= now_ns and self.kind(step) != "eval"]
        found = [step.t for step in ended[-2:][:1] if self._reaches(step, now_ns)]
        long = [step for step in self._long if step.t + step.dur_ns <= now_ns and self._reaches(step, now_ns)]
        if len(long) >= LEAST_LONG and len(long) <= RARE_SHARE * (self.steps[-1].n - long[0].n):
            found.append(long[0].t)
        return min(found, default=None)

    def _reaches(self, first: Step, now_ns: int) -> bool:
        """Whether a window may begin with this step."""
        return now_ns - first.t <= EXACT_NS and self.steps[-1].n - first.n < WINDOW_MAX_STEPS

    def peer(self, now_ns: int, since_ns: int | None = None) -> Peer:
        """This rank as the windows of others show it."""
        steps = self.recent(now_ns, since_ns)
        if self._peer is None or self._peer.steps is not steps or self._peer.run is not self.run:
            latest = tuple(islice(reversed(self.process), PEER_SAMPLES))
            self._peer = Peer(run=self.run, steps=steps, process=latest[::-1])
        return self._peer

    def worker(self, from_ns: int, to_ns: int) -> Site | None:
        """The latest look into one of its loader workers within that time."""
        return next((one for one in reversed(self.workers) if from_ns <= one.t <= to_ns), None)

    def trained(self, from_ns: int, to_ns: int) -> list[Step]:
        """The train steps held exactly that began at `from_ns` or later and were over by `to_ns`, oldest first."""
        out: list[Step] = []
        for step in reversed(self.steps):
            if step.t < from_ns:
                break
            if not step.partial and step.t + step.dur_ns <= to_ns and self.kind(step) != "eval":
                out.append(step)
        out.reverse()
        return out

    def held(self, now_ns: int) -> tuple[Step, ...]:
        """Every finished step that is held exactly and ended by then, oldest first, with their kinds decided. Where
        some stand for others, as often as these were."""
        steps = [step for step in self.steps if not step.partial and step.t + step.dur_ns <= now_ns]
        found = tuple(step if step.kind == (kind := self.kind(step)) else _with_kind(step, kind) for step in steps)
        folds = within_seconds(self.folds, found)
        return evenly(found, folds, WHOLE_MAX_STEPS) if folds else found

    def _cut(self, now_ns: int, since_ns: int | None) -> tuple[Step, ...]:
        out: list[Step] = []
        train = 0
        for step in reversed(self.steps):
            age = now_ns - step.t - step.dur_ns
            if age < 0:
                continue
            if age > WINDOW_NS:
                enough = train >= WINDOW_STEPS and (since_ns is None or step.t < since_ns)
                if enough or (age > EXACT_NS and train >= WINDOW_MIN_STEPS):
                    break
            if train >= WINDOW_MAX_STEPS or len(out) >= 4 * WINDOW_MAX_STEPS:
                break
            if step.partial:
                continue
            decided = step if step.kind is not None else _with_kind(step, self.kind(step))
            train += decided.kind != "eval"
            out.append(decided)
        out.reverse()
        steps = tuple(out)
        folds = within_seconds(self.folds, steps)
        return evenly(steps, folds) if folds else steps


def _of_note(phases: Mapping[str, int], dur_ns: int) -> bool:
    """Whether evaluating or saving takes a real part of the rest of a step."""
    spent = sum(phases.get(name, 0) for name in EPISODIC)
    return spent > EPISODE_SHARE * (dur_ns - spent)


class GpuTrack:
    """All that is held of one GPU."""

    def __init__(self, column_ns: int) -> None:
        self.samples: deque[Gpu] = deque(maxlen=600)
        self.bursts: deque[Burst] = deque(maxlen=600)
        self.util = Columns(column_ns, COLUMNS)
        self.peak = Columns(column_ns, COLUMNS)
        self.memory = Columns(column_ns, COLUMNS)

    def restore(self, past: GpuPast) -> None:
        """Begin with the histories from before the first exact sample."""
        self.util.restore(past.util)
        self.peak.restore(past.peak)
        self.memory.restore(past.memory)

    def add(self, gpu: Gpu) -> None:
        """Take in a sample; a percentage that is none is not known."""
        counted = not self.samples and self.util.covers(gpu.t)
        wrong = {name: None for name in GPU_PERCENTS if not _percent(getattr(gpu, name))}
        if wrong:
            gpu = msgspec.structs.replace(gpu, **wrong)
        self.samples.append(gpu)
        if counted:
            return  # the latest sample of a past, which its histories hold too
        if gpu.util_pct is not None:
            self.util.add(gpu.t, gpu.util_pct)
            self.peak.add(gpu.t, gpu.util_pct)
        if gpu.mem_used_bytes is not None and gpu.mem_total_bytes:
            self.memory.add(gpu.t, 100 * gpu.mem_used_bytes / gpu.mem_total_bytes)

    def add_burst(self, burst: Burst) -> None:
        """Take in the driver's own samples."""
        self.bursts.append(burst)
        for dt, value in zip(burst.dt_ns, burst.util_pct, strict=False):
            if _percent(value):
                self.peak.add(burst.t + dt, value)


class HostTrack:
    """All that is held of one machine."""

    def __init__(self, column_ns: int) -> None:
        self.samples: deque[Host] = deque(maxlen=600)
        self.cpu = Columns(column_ns, COLUMNS)
        self.iowait = Columns(column_ns, COLUMNS)

    def restore(self, past: HostPast) -> None:
        """Begin with the histories from before the first exact sample."""
        self.cpu.restore(past.cpu)
        self.iowait.restore(past.iowait)

    def add(self, host: Host) -> None:
        """Take in a sample."""
        counted = not self.samples and self.cpu.covers(host.t)
        self.samples.append(host)
        if counted:
            return  # the latest sample of a past, which its histories hold too
        if host.cpu_pct is not None:
            self.cpu.add(host.t, host.cpu_pct)
        if host.iowait_pct is not None:
            self.iowait.add(host.t, host.iowait_pct)


def within(phases: dict[str, int], dur_ns: int) -> dict[str, int]:
    """Phases that sum to no more than their step: larger ones shrink in proportion; `other` is derived, never kept."""
    if "other" in phases:
        phases = {name: ns for name, ns in phases.items() if name != "other"}
    total = sum(phases.values())
    return phases if total <= dur_ns else {name: ns * dur_ns // total for name, ns in phases.items()}


def _percent(value: float | None) -> bool:
    """Whether a value is absent or a percentage."""
    return value is None or 0 <= value <= 100


def _with_kind(step: Step, kind: str) -> Step:
    return msgspec.structs.replace(step, kind=kind)
