"""The test of a difference: how often it cries wolf, how small a change it finds, and what it refuses to say."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from gputop.report.diff_noise import FEWEST, MIN_STEPS, Bin, compare, pace, student, typical

SECONDS = 60


def noisy(seed: int, *, follows: float, scale: float = 1.0, noise: float = 0.1, seconds: float = SECONDS) -> list[Bin]:
    """Steps of 100 ms with noise that follows itself: each deviation keeps a part `follows` of the one before."""
    rng = random.Random(seed)
    fresh = math.sqrt(1 - follows**2)
    t, deviation, bins = 0, rng.gauss(0, 1), []
    while t < seconds * 1e9:
        deviation = follows * deviation + fresh * rng.gauss(0, 1)
        ns = int(1e8 * scale * max(0.05, 1 + noise * deviation))
        bins.append(Bin(t, 1, ns, 32))
        t += ns
    return bins


def differ(a: list[Bin], b: list[Bin]) -> bool:
    """Whether the interval leaves out "no difference": the statistics alone, whatever the size of the difference."""
    here, there = pace(a), pace(b)
    assert here is not None
    assert there is not None
    ratio = compare(here, there)
    return ratio.low > 1 or ratio.high < 1


def share(found: Callable[[int], bool], seeds: int) -> float:
    return sum(found(seed) for seed in range(seeds)) / seeds


@pytest.mark.parametrize("follows", [0.0, 0.5, 0.8, 0.95])
def test_alike_runs_are_called_different_in_no_more_than_seven_of_a_hundred(follows: float) -> None:
    def wrong(seed: int) -> bool:
        return differ(noisy(2 * seed, follows=follows), noisy(2 * seed + 1, follows=follows))

    assert share(wrong, 200) <= 0.07


def test_steps_taken_as_independent_would_cry_wolf() -> None:
    """Why there are blocks: with a block for each step, noise that follows itself is taken for a difference."""

    def naive(seed: int) -> bool:
        runs = [noisy(2 * seed + side, follows=0.8) for side in range(2)]
        means = [sum(one.dur_ns for one in run) / len(run) for run in runs]
        variances = [
            sum((one.dur_ns / mean - 1) ** 2 for one in run) / len(run) ** 2
            for run, mean in zip(runs, means, strict=True)
        ]
        return abs(math.log(means[1] / means[0])) > 1.96 * math.sqrt(sum(variances))

    assert share(naive, 60) > 0.3


@pytest.mark.parametrize(("follows", "least"), [(0.0, 0.99), (0.5, 0.9), (0.8, 0.6)])
def test_five_percent_slower_is_found_in_a_minute_of_ten_percent_noise(follows: float, least: float) -> None:
    def found(seed: int) -> bool:
        return differ(noisy(2 * seed, follows=follows), noisy(2 * seed + 1, follows=follows, scale=1.05))

    assert share(found, 60) >= least


def test_rare_long_steps_make_the_interval_wide_not_wrong() -> None:
    def checkpoints(seed: int) -> list[Bin]:
        rng = random.Random(seed)
        first = rng.randrange(100)
        return [Bin(n, 1, int(1e8 * (1 + 0.05 * rng.gauss(0, 1)) + 1e9 * (n % 100 == first)), 1) for n in range(600)]

    assert share(lambda seed: differ(checkpoints(2 * seed), checkpoints(2 * seed + 1)), 60) <= 0.05


def test_medians_see_what_rare_long_steps_drown() -> None:
    def run(scale: float) -> list[Bin]:
        rng = random.Random(5)
        return [
            Bin(n, 1, int(scale * 1e8 * (1 + 0.02 * rng.gauss(0, 1)) + 8e9 * (rng.random() < 0.01)), 1)
            for n in range(900)
        ]

    a, b = run(1.0), run(0.93)
    middles = [typical(one) for one in (a, b)]
    assert not differ(a, b)
    assert middles[0] is not None
    assert middles[1] is not None
    ratio = compare(middles[0], middles[1])
    assert ratio.differs
    assert ratio.ratio == pytest.approx(0.93, abs=0.01)


def test_a_difference_under_two_percent_is_none_however_sure() -> None:
    a, b = (pace([Bin(n, 1, int(ns + n % 3), 1) for n in range(2000)]) for ns in (1e8, 1.015e8))
    assert a is not None
    assert b is not None
    ratio = compare(a, b)
    assert ratio.low > 1
    assert not ratio.differs
    assert ratio.margin_pct == 2.0


def test_too_few_steps_or_too_little_time_say_nothing() -> None:
    steps = [Bin(n, 1, 10**8, 1) for n in range(MIN_STEPS - 1)]
    assert pace(steps) is None
    assert typical(steps) is None
    assert pace([Bin(n, 1, 10**6, 1) for n in range(5000)]) is None, "5 s are not eight blocks"
    assert pace([Bin(n, 1, 10**6, 1) for n in range(2000 * FEWEST)]) is not None
    assert pace([]) is None
    assert pace([Bin(n, 1, 0, 1) for n in range(100)]) is None


def test_sums_a_second_give_what_the_steps_give() -> None:
    steps = noisy(3, follows=0.5, seconds=120)
    sums: dict[int, Bin] = {}
    for one in steps:
        second = one.t // 10**9
        held = sums.get(second, Bin(one.t, 0, 0, 0))
        sums[second] = Bin(held.t, held.steps + 1, held.dur_ns + one.dur_ns, held.samples + one.samples)
    single, summed = pace(steps), pace(list(sums.values()))
    assert single is not None
    assert summed is not None
    assert summed.value == pytest.approx(single.value)
    assert summed.log_variance == pytest.approx(single.log_variance, rel=0.5)


def test_time_for_a_sample_is_time_for_a_step_over_its_samples() -> None:
    steps = noisy(3, follows=0.0)
    a, b = pace(steps), pace(steps, 64.0)
    assert a is not None
    assert b is not None
    assert b.value == pytest.approx(a.value / 64)
    assert b.log_variance == pytest.approx(a.log_variance)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(5, 2.5706), (7, 2.3646), (14, 2.1448), (60, 2.0003), (math.inf, 1.96)]
)
def test_students_quantiles(freedom: float, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, rel=2e-3)
