"""What the steps of a window say: the loop's ledger in columns, with warm-up, epoch edges and outliers set apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise
from operator import sub
from typing import NamedTuple

import msgspec

from gputop.diagnosis.apart import APART_LEAVES, ends_of_passes, lone_step, set_apart
from gputop.diagnosis.beside import beside_share
from gputop.diagnosis.episodes import place_episodes, spans
from gputop.diagnosis.numbers import period, ranked
from gputop.diagnosis.phases import COMPUTE, EPISODIC, HOST, MODEL, in_columns, role
from gputop.records import Step
from gputop.window import Window

MS = 1e-6
"""Milliseconds in a nanosecond."""


ORDER = ("data", "h2d", "forward", "backward", "sync", "optimizer", "comm", "eval", "checkpoint")
"""The usual phases as they come in a step."""


class Bucket(NamedTuple):
    """A bucket of the ledger: its share of wall time (all buckets sum to 100) and its mean per step."""

    phase: str
    pct: float
    ms: float


class First(NamedTuple):
    """The first step of an epoch: its start (ns), its length and its wait for data (ms).

    `before_ms`: what the step before it waited for data beyond the usual, at the end of its pass: workers that are not
    kept are taken down in the request that finds a pass exhausted. `slow_ms`: what the model's work in it took beyond
    the usual: memory that new workers share with the training is copied as soon as either writes to it.
    """

    t: int
    ms: float
    wait_ms: float
    before_ms: float = 0.0
    slow_ms: float = 0.0


class Loop(msgspec.Struct, frozen=True, kw_only=True):
    """The steady training steps of a window. Lists are aligned with `steps`; times are milliseconds.

    `phases` are the columns as marked, with `other`; they sum to `dur`. `roles` are the same times by what the
    phases mean (phases.role). `firsts` are the first steps of later epochs. `opaque`: the model's own work is not
    marked, so that `other` holds it. `beside`: share of forward that is the loop's own work by stack samples; it
    counts as such in `roles`.
    """

    steps: Sequence[Step]
    dur: list[float]
    phases: dict[str, list[float]]
    roles: dict[str, list[float]]
    seen: int
    mean_ms: float
    median_ms: float
    p95_ms: float
    p99_ms: float
    max_ms: float
    span_s: float
    warmup_ms: tuple[float, ...] = ()
    firsts: tuple[First, ...] = ()
    lone: tuple[int, float] | None = None
    contradictory: int = 0
    missing: int = 0
    eval_steps: int = 0
    open_eval_ms: float = 0.0
    opaque: bool = False
    samples_s: float | None = None
    beside: float = 0.0

    @property
    def n(self) -> int:
        """How many steady steps there are."""
        return len(self.steps)

    def ms(self, part: str) -> float:
        """Mean time of a role per step."""
        column = self.roles.get(part)
        return sum(column) / len(column) if column else 0.0

    def pct(self, part: str) -> float:
        """Share of wall time of a role."""
        column = self.roles.get(part)
        return 100 * sum(column) / (self.mean_ms * self.n) if column and self.mean_ms else 0.0

    def wall_pct(self, part: str) -> float:
        """Share of wall time of what comes every so many steps: over whole periods where two began in the window.

        Else with what an unfinished step has spent evaluating so far.
        """
        column = self.roles.get(part) or []
        places = [index for index, ms in enumerate(column) if ms > EPISODE_SHARE * self.median_ms]
        if len(places) > 1:
            between = slice(places[0], places[-1])
            return 100 * sum(column[between]) / sum(self.dur[between])
        whole = self.mean_ms * self.n + self.open_eval_ms
        spent = sum(self.roles.get(part) or ()) + (self.open_eval_ms if part == "eval" else 0.0)
        return 100 * spent / whole if whole else 0.0

    def compute_pct(self) -> float:
        """Share of wall time in forward, backward and optimizer; with `other` where that holds the model's work."""
        return sum(self.pct(part) for part in COMPUTE) + (self.pct(HOST) if self.opaque else 0.0)

    def episodic_pct(self) -> float:
        """Share of wall time in evaluation and checkpoints."""
        return sum(self.wall_pct(part) for part in EPISODIC)


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """How a role's time is spread over the steps: its long ones (see `shape`), how often they come, what they cost."""

    median_ms: float
    p10_ms: float
    p95_ms: float
    max_ms: float
    long_steps: int
    long_ms: float
    period: int | None
    steady: bool


EPISODE_SHARE = 0.05
"""Length, in median steps, from which an evaluation or a save in a step counts as one."""

LONG_RATIO, LONG_SHARE = 3.0, 0.1
"""A part of a step is long where it takes this many times the part's median and this part of the median step."""


def shape(loop: Loop, part: str) -> Shape:
    """The shape of a role's times: steady, or a few long ones with a period in steps."""
    column = loop.roles.get(part) or [0.0] * loop.n
    ordered = sorted(column)
    middle = ranked(ordered, 0.5)
    bar = max(LONG_RATIO * middle, LONG_SHARE * loop.median_ms)
    places = [index for index, value in enumerate(column) if value > bar]
    lengths = [column[index] for index in places]
    total = sum(column)
    return Shape(
        median_ms=middle,
        p10_ms=ranked(ordered, 0.1),
        p95_ms=ranked(ordered, 0.95),
        max_ms=ordered[-1],
        long_steps=len(places),
        long_ms=sum(lengths) / len(lengths) if lengths else 0.0,
        period=period([loop.steps[index].n for index in places]),
        steady=not places or sum(lengths) < 0.5 * total or len(places) > 0.5 * loop.n,
    )


LEARNING = frozenset(("train", "warmup"))
"""Kinds of steps that train."""


def train_and_eval(steps: Iterable[Step]) -> tuple[list[Step], list[Step]]:
    """Top-level training steps, and the steps of evaluation loops.

    The timeline has set `kind`; where a trace lacks it, a loop that never runs backward beside one that does evaluates.
    """
    whole = [step for step in steps if not step.partial and step.dur_ns > 0]
    if {step.kind for step in whole} <= LEARNING:
        return whole, []
    learning = {step.loader_id for step in whole if step.had_backward}
    train: list[Step] = []
    other: list[Step] = []
    for step in whole:
        quiet = step.kind is None and step.had_backward is False and learning and step.loader_id not in learning
        (other if step.kind == "eval" or quiet else train).append(step)
    return train, other


def ledger(loop: Loop, every: int = 1) -> tuple[Bucket, ...]:
    """The buckets of wall time: every phase seen and `other`, in the order of a step; shares sum to 100.

    Each how-many-eth step is told in detail, and only such a one pays for it: `self` is what an average step pays.
    """
    sums = {name: sum(column) for name, column in loop.phases.items()}
    if "self" in sums:
        sums["self"] /= every
    whole = sum(sums.values())
    return tuple(
        Bucket(name, 100 * sums[name] / whole if whole else 0.0, sums[name] / loop.n)
        for name in in_order(loop.phases)
        if sums[name] or name == "other"
    )


def in_order(names: Collection[str]) -> list[str]:
    """Phases in the order of a step: the user's own ones after the usual, then `self` and `other`."""
    found = [name for name in ORDER if name in names]
    found += sorted(name for name in names if name not in (*ORDER, "self", "other"))
    return found + [name for name in ("self", "other") if name in names]


def own_ms(loop: Loop) -> list[float]:
    """Each step's length without the evaluations and checkpoints in it, ms."""
    apart = [column for name, column in loop.phases.items() if role(name) in EPISODIC]
    return [ms - sum(parts) for ms, *parts in zip(loop.dur, *apart, strict=True)]


def read_loop(window: Window, *, accidents: bool = False) -> Loop | None:
    """The loop of a window; None when no training step finished in it.

    `accidents`: there were others like it before, so that a single step that dwarfs the others counts as well.
    """
    train, evaluated = train_and_eval(window.steps)
    if not train:
        return None
    lengths = _lengths(train)
    columns, contradictory = _columns(train, lengths)
    place_episodes(train, lengths, columns, spans(window, evaluated))
    keep, warm, firsts = set_apart(train, lengths)
    episodic = [column for name, column in columns.items() if role(name) in EPISODIC]
    lone = None if accidents else lone_step(keep, lengths, lambda index: sum(column[index] for column in episodic))
    if lone is not None:
        keep = [index for index in keep if index != lone]
    data = [name for name in columns if role(name) == "data"]
    ends = ends_of_passes(train, keep, firsts, [columns[name] for name in data])
    if len(keep) - len(ends) >= APART_LEAVES:
        keep = [index for index in keep if index not in ends]
    dur = [lengths[index] * MS for index in keep]
    phases = {name: [ns * MS for ns in _picked(column, keep)] for name, column in columns.items()}
    ordered = sorted(dur)
    working = [name for name in columns if role(name) in COMPUTE]
    usual = 0.0
    if working and firsts:
        usual = ranked(sorted(map(sum, zip(*(phases[name] for name in working), strict=True))), 0.5)
    beside = beside_share(window, sum(phases["other"]) / sum(dur)) if "forward" in phases else 0.0
    steady = train if len(keep) == len(train) else [train[index] for index in keep]
    return Loop(
        steps=steady,
        dur=dur,
        phases=phases,
        roles=_without_beside(_roles(phases), beside),
        beside=beside,
        seen=len(train),
        mean_ms=sum(dur) / len(dur),
        median_ms=ranked(ordered, 0.5),
        p95_ms=ranked(ordered, 0.95),
        p99_ms=ranked(ordered, 0.99),
        max_ms=ordered[-1],
        span_s=(train[-1].t + train[-1].dur_ns - train[0].t) / 1e9,
        warmup_ms=tuple(lengths[index] * MS for index in warm),
        firsts=tuple(
            First(
                train[index].t,
                lengths[index] * MS,
                sum(columns[name][index] for name in data) * MS,
                ends.get(index - 1, 0.0) * MS,
                max(0.0, sum(columns[name][index] for name in working) * MS - usual),
            )
            for index in firsts
        ),
        lone=None if lone is None else (train[lone].n, lengths[lone] * MS),
        contradictory=contradictory,
        missing=0 if window.folds else _missing(train),
        eval_steps=len(evaluated),
        open_eval_ms=_open_eval(train[-1], evaluated) * MS,
        opaque=not any(role(name) in MODEL for name in columns),
        samples_s=_samples(steady, dur),
    )


def _picked(column: list[float], keep: list[int]) -> list[float]:
    """The entries of a column at these places, ascending."""
    first, last = keep[0], keep[-1]
    return column[first : last + 1] if last - first + 1 == len(keep) else [column[index] for index in keep]


def _open_eval(last: Step, evaluated: list[Step]) -> int:
    """Time, ns, of evaluation since the last training step ended: a step that goes on evaluating is not finished."""
    end = last.t + last.dur_ns
    return sum(step.dur_ns for step in evaluated if step.t >= end)


def _lengths(train: list[Step]) -> list[float]:
    """Length of each step in ns: up to the next one's start where the two are neighbours, so that no time is lost."""
    lengths: list[float] = [step.dur_ns for step in train]
    first = train[0].n
    if [step.n for step in train] == list(range(first, first + len(train))):
        starts = [step.t for step in train]
        gaps = list(map(sub, starts[1:], starts))
        return lengths if gaps == lengths[:-1] else [*map(max, lengths, gaps), lengths[-1]]
    for index in range(len(train) - 1):
        here, following = train[index], train[index + 1]
        if following.n == here.n + 1 and following.t - here.t > here.dur_ns:
            lengths[index] = following.t - here.t
    return lengths


def _columns(train: list[Step], lengths: list[float]) -> tuple[dict[str, list[float]], int]:
    """Phases in columns, with `other`; a step whose phases exceed it is scaled down to it and counted contradictory."""
    columns = in_columns([step.phases_ns for step in train])
    columns.pop("other", None)
    for name, column in columns.items():
        if min(column) < 0:
            columns[name] = [max(0.0, ns) for ns in column]
    other = list(lengths)
    for column in columns.values():
        other = list(map(sub, other, column))
    longer = [index for index, left in enumerate(other) if left < 0] if min(other) < 0 else []
    for index in longer:
        scale = lengths[index] / (lengths[index] - other[index])
        other[index] = 0.0
        for column in columns.values():
            column[index] *= scale
    columns["other"] = other
    return columns, len(longer)


def _roles(phases: dict[str, list[float]]) -> dict[str, list[float]]:
    roles: dict[str, list[float]] = {}
    for name, column in phases.items():
        part = role(name)
        have = roles.get(part)
        roles[part] = column if have is None else [a + b for a, b in zip(have, column, strict=True)]
    roles.setdefault(HOST, [0.0] * len(next(iter(phases.values()))))
    return roles


def _without_beside(roles: dict[str, list[float]], share: float) -> dict[str, list[float]]:
    """The roles with a share of forward given to the loop's own work."""
    if not share:
        return roles
    forward = roles["forward"]
    host = [own + share * ms for own, ms in zip(roles[HOST], forward, strict=True)]
    return roles | {HOST: host, "forward": [(1 - share) * ms for ms in forward]}


def _missing(train: list[Step]) -> int:
    """Steps that never arrived, by the holes in their numbers."""
    if train[-1].n - train[0].n == len(train) - 1:
        return 0
    return sum(max(0, later.n - earlier.n - 1) for earlier, later in pairwise(train))


def _samples(steps: list[Step], dur: list[float]) -> float | None:
    counts = [step.samples for step in steps]
    counted = [ms for count, ms in zip(counts, dur, strict=True) if count is not None] if None in counts else dur
    whole = sum(counted)
    return 1000 * sum(count for count in counts if count is not None) / whole if whole else None
