"""Whether two runs' paces differ by more than their own noise: Welch's t on batch means.

Step times follow one another: a slow one is followed by slow ones, so steps counted as independent would call any two
runs different. Successive steps are therefore gathered into blocks (the method of batch means: Law, Simulation Modeling
and Analysis, chapter 9). Neighbouring blocks are joined until they no longer follow one another, and what is left of
that widens the interval. The ratio of the two paces is judged on its logarithm, with Welch's degrees of freedom, which
needs no equal variances and no random numbers: the same recordings give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

import msgspec

MIN_STEPS = 50
"""Steady steps that a run must have for a comparison."""

FEWEST, MOST = 8, 64
"""Blocks of a run: fewer say nothing of its noise; more are not needed, and longer ones forget more."""

BLOCK_NS = 2_000_000_000
BLOCK_STEPS = 5
"""A block is at least so long: the machine's own rhythms (samplers, logging, prefetch queues) are within one."""

FOLLOWS = 0.15
"""Correlation of neighbouring blocks above which they are joined."""

LEAST_PCT = 2.0
"""Difference below which two runs are alike whatever the statistics say: the same script started twice differs by 1 to
2 % (memory layout, clocks, neighbours), and nothing within one run shows it."""

Z = 1.959964
"""The normal quantile of a two-sided 95 % interval."""


class Bin(msgspec.Struct, frozen=True):
    """Steady steps of a stretch: when it began, how many, their time, and their samples."""

    t: int
    steps: int
    dur_ns: int
    samples: int


class Noise(msgspec.Struct, frozen=True):
    """How far a figure of a run can be trusted: its value, the variance of its logarithm, and the blocks behind it."""

    value: float
    log_variance: float
    blocks: int


class Ratio(msgspec.Struct, frozen=True):
    """B's pace over A's (above 1: B takes longer), its 95 % interval, and whether that is a difference at all."""

    ratio: float
    low: float
    high: float
    differs: bool

    @property
    def margin_pct(self) -> float:
        """Half the interval's width in percent, never less than LEAST_PCT."""
        return max(LEAST_PCT, 100 * (self.high - self.low) / 2 / self.ratio)


Pair = tuple[float, float]
"""Time in ns, and the units of work done in it."""


def pace(bins: Sequence[Bin], units_a_step: float = 1.0) -> Noise | None:
    """The mean time a unit of work (a step, a sample) in ns, and its noise; None for too few steps or blocks."""
    if sum(one.steps for one in bins) < MIN_STEPS:
        return None
    blocks = _blocks(bins)
    return _noise([(sum(b.dur_ns for b in block), units_a_step * sum(b.steps for b in block)) for block in blocks])


def typical(bins: Sequence[Bin], units_a_step: float = 1.0) -> Noise | None:
    """The same of the middle step: the mean of the blocks' medians. Bins must be single steps."""
    if len(bins) < MIN_STEPS:
        return None
    return _noise([(median(b.dur_ns for b in block), units_a_step) for block in _blocks(bins)])


def _noise(pairs: list[Pair]) -> Noise | None:
    total = sum(units for _, units in pairs)
    value = sum(ns for ns, _ in pairs) / total if total > 0 else 0.0
    if value <= 0 or len(pairs) < FEWEST:
        return None
    while len(pairs) >= 2 * FEWEST and _following(_residuals(pairs, value)) > FOLLOWS:
        pairs = _joined(pairs)
    left = _residuals(pairs, value)
    follows = max(0.0, _following(left))
    count = len(pairs)
    variance = count / (count - 1) * sum(one * one for one in left) / (value * total) ** 2
    return Noise(value, variance * (1 + follows) / (1 - follows), count)


def stretches(bins: Sequence[Bin]) -> int:
    """How many blocks there are of a run: FEWEST are needed."""
    return len(_blocks(bins))


def compare(a: Noise, b: Noise) -> Ratio:
    """B over A with its interval."""
    spread = a.log_variance + b.log_variance
    parts = sum(one.log_variance**2 / (one.blocks - 1) for one in (a, b))
    freedom = spread**2 / parts if parts > 0 else math.inf
    reach = student(freedom) * math.sqrt(spread)
    centre = math.log(b.value / a.value)
    low, high = math.exp(centre - reach), math.exp(centre + reach)
    ratio = math.exp(centre)
    beyond = (low > 1 or high < 1) and 100 * abs(ratio - 1) >= LEAST_PCT
    return Ratio(ratio, low, high, beyond)


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t (Abramowitz and Stegun 26.7.5; right within 0.1 % from 4 on)."""
    if math.isinf(freedom):
        return Z
    z, n = Z, max(freedom, 3.0)
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4)
    )


def _blocks(bins: Sequence[Bin]) -> list[list[Bin]]:
    """Blocks of successive bins, MOST at most; what is left at the end goes to the last."""
    least = max(BLOCK_NS, sum(one.dur_ns for one in bins) / MOST)
    out: list[list[Bin]] = []
    block: list[Bin] = []
    ns = steps = 0
    for one in bins:
        block.append(one)
        ns, steps = ns + one.dur_ns, steps + one.steps
        if ns >= least and steps >= BLOCK_STEPS:
            out.append(block)
            block, ns, steps = [], 0, 0
    if out:
        out[-1].extend(block)
    return out


def _joined(pairs: list[Pair]) -> list[Pair]:
    """Neighbours joined two by two; one left over goes to the last."""
    out = [(a + c, b + d) for (a, b), (c, d) in zip(pairs[::2], pairs[1::2], strict=False)]
    if len(pairs) % 2:
        out[-1] = (out[-1][0] + pairs[-1][0], out[-1][1] + pairs[-1][1])
    return out


def _residuals(pairs: list[Pair], value: float) -> list[float]:
    return [ns - value * units for ns, units in pairs]


def _following(left: list[float]) -> float:
    """Correlation of neighbours, corrected for its bias of about -1/n; at most 0.9."""
    square = sum(one * one for one in left)
    if square <= 0:
        return 0.0
    found = sum(one * other for one, other in pairwise(left)) / square
    return min(0.9, found + 1 / len(left))
