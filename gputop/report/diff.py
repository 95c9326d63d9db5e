"""Two runs compared: what changed, by how much, and whether that is beyond the runs' own noise."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import msgspec

from gputop import figures as fig
from gputop.diagnosis.phases import STANDARD
from gputop.report.diff_noise import FEWEST, MIN_STEPS, Ratio, compare, pace, stretches, typical
from gputop.report.diff_settings import Change, changes
from gputop.report.diff_side import Side

SAME_BATCH = 0.005
"""Share by which mean batch sizes may differ and still be the same: the last batch of an epoch is often smaller."""

STARTS_POINTS = 2.0
"""Points of the time by which the share of epochs' first steps must change to be told."""

Unit = Literal["step", "sample"]


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the ledger: a phase's mean time a step, and its share of the step in percent, on each side."""

    phase: str
    a_ms: float | None
    b_ms: float | None
    a_pct: float | None
    b_pct: float | None


class RankPair(msgspec.Struct, frozen=True, kw_only=True):
    """A rank that is on both sides: its mean step and its share of waiting for data, over its whole length."""

    rank: int
    a_run_id: str
    b_run_id: str
    a_ms: float
    b_ms: float
    a_data_pct: float | None
    b_data_pct: float | None


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two sides compared.

    `unit` is what pace is measured by: time a step, or time a sample of the whole job where batches or the number of
    ranks differ. `mean` compares mean paces, `typical` medians (None where only sums are known). Both are None when
    `why_not` says why no verdict can be given.
    """

    a: Side
    b: Side
    unit: Unit
    mean: Ratio | None
    typical: Ratio | None
    why_not: str | None
    ledger: tuple[Phase, ...]
    changes: tuple[Change, ...]
    ranks: tuple[RankPair, ...]
    warnings: tuple[str, ...]

    @property
    def change_pct(self) -> float | None:
        """B's throughput against A's in percent: above 0 is faster. None without a comparison."""
        return None if self.mean is None else 100 * (1 / self.mean.ratio - 1)

    def regressed(self, pct: float) -> bool:
        """Whether throughput fell by more than `pct` percent and beyond the noise."""
        change = self.change_pct
        return self.mean is not None and self.mean.differs and change is not None and change < -pct


def diff(a: Side, b: Side) -> Comparison:
    """Compare two runs; the figures of B are told against those of A."""
    unit: Unit = "sample" if _batches_differ(a, b) else "step"
    paces = [pace(side.figures.bins, _weight(side, unit)) for side in (a, b)]
    middles = [typical(side.figures.bins, _weight(side, unit)) if side.figures.exact else None for side in (a, b)]
    mean = compare(paces[0], paces[1]) if paces[0] is not None and paces[1] is not None else None
    middle = compare(middles[0], middles[1]) if middles[0] is not None and middles[1] is not None else None
    return Comparison(
        a=a,
        b=b,
        unit=unit,
        mean=mean,
        typical=middle if mean is not None else None,
        why_not=None if mean is not None else _why_not(a, b),
        ledger=tuple(_ledger(a, b)),
        changes=tuple(changes(a, b)),
        ranks=tuple(_ranks(a, b)),
        warnings=tuple(_warnings(a, b)),
    )


def _batches_differ(a: Side, b: Side) -> bool:
    """Whether a step is not the same work on both sides, as far as batches are known."""
    here, there = a.job_batch, b.job_batch
    return here is not None and there is not None and abs(there / here - 1) > SAME_BATCH


def _weight(side: Side, unit: Unit) -> float:
    """Units of work of one step: 1, or the samples of the whole job."""
    return 1.0 if unit == "step" else side.job_batch or 1.0


def _ranks(a: Side, b: Side) -> Iterator[RankPair]:
    for rank in sorted(a.ranks.keys() & b.ranks.keys()):
        here, there = a.ranks[rank], b.ranks[rank]
        yield RankPair(
            rank=rank, a_run_id=here.run_id, b_run_id=there.run_id, a_ms=here.mean_ms, b_ms=there.mean_ms,
            a_data_pct=here.data_pct, b_data_pct=there.data_pct,
        )  # fmt: skip


def _why_not(a: Side, b: Side) -> str:
    """Why there is no verdict, in words."""
    counts = [side.figures.steady_steps for side in (a, b)]
    if min(counts) < MIN_STEPS:
        who = "A and B have" if max(counts) < MIN_STEPS else f"{'A' if counts[0] < MIN_STEPS else 'B'} has"
        few = " and ".join(str(count) for count in counts if count < MIN_STEPS)
        return (
            f"too few steps to compare: {who} {few} after warm-up, {MIN_STEPS} at least are needed on each side; "
            "record for longer"
        )
    has = [stretches(side.figures.bins) for side in (a, b)]
    short = [f"{name} has {count}" for name, count in zip("AB", has, strict=True) if count < FEWEST]
    return (
        f"too short to compare: {' and '.join(short)} of the {FEWEST} stretches of 2 s and 5 steps that each side "
        "needs after warm-up; record for longer"
    )


def _ledger(a: Side, b: Side) -> Iterator[Phase]:
    here, there = a.figures.phases_ms, b.figures.phases_ms
    for name in _phase_order({*here, *there}):
        known = [(side.get(name), sum(side.values())) for side in (here, there)]
        pcts = [100 * ms / whole if ms is not None and whole > 0 else None for ms, whole in known]
        yield Phase(phase=name, a_ms=known[0][0], b_ms=known[1][0], a_pct=pcts[0], b_pct=pcts[1])


ORDER = ("data", "h2d", "forward", "backward", "optimizer", "sync", "comm", "eval", "checkpoint", "self", "other")


def _phase_order(names: set[str]) -> list[str]:
    place = {name: index for index, name in enumerate(ORDER)}
    return sorted(names, key=lambda name: (place.get(name, place["self"] - 0.5 if name not in STANDARD else 99), name))


def _warnings(a: Side, b: Side) -> Iterator[str]:
    yield from a.warnings
    yield from b.warnings
    if a.simulated != b.simulated:
        simulated, real = ("A", "B") if a.simulated else ("B", "A")
        yield f"{simulated} ran on a simulated GPU, {real} on a real machine: their difference says nothing of either"
    for name, side in (("A", a), ("B", b)):
        if side.figures.epoch_starts is None:
            yield f"{name} is long: its first steps of epochs are part of the comparison"
    if starts_changed(a, b):
        told = " against ".join(_starts(side) for side in (a, b))
        yield f"first steps of epochs, which are left out of the comparison: {told}"


def starts_changed(a: Side, b: Side) -> bool:
    """Whether the first steps of epochs, which are in no mean, take another share of the time than before."""
    starts = [starts_pct(side) for side in (a, b)]
    return None not in starts and abs((starts[0] or 0) - (starts[1] or 0)) > STARTS_POINTS


def mean_with_starts_ms(side: Side) -> float | None:
    """The mean step with the first steps of epochs, still without warm-up."""
    one, share = side.figures, starts_pct(side)
    if one.mean_ms is None or share is None or share >= 100:
        return None
    return one.mean_ms * one.steady_steps / (1 - share / 100) / (one.steady_steps + (one.epoch_starts or 0))


def starts_pct(side: Side) -> float | None:
    """Share of all the run's step time that the first steps of epochs take."""
    one = side.figures
    if one.epoch_starts is None or one.mean_ms is None:
        return None
    first = one.epoch_starts * (one.epoch_start_ms or 0.0)
    whole = first + one.mean_ms * one.steady_steps
    return 100 * first / whole if whole else None


def _starts(side: Side) -> str:
    one = side.figures
    if not one.epoch_starts or one.epoch_start_ms is None:
        return "none"
    return f"{one.epoch_starts} of {fig.ms(one.epoch_start_ms)} ({starts_pct(side):.0f} % of the time)"
