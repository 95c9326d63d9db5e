"""What judging costs: a window of eight ranks, and one run's full window of 500 steps."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import pytest

from gputop.diagnosis.verdict import Judge, judge
from gputop.timeline import Timeline
from gputop.window import Window
from tests.diagnosis.builder import COMPUTE, STARVED, busy, low, ranks, trace, window, workers

pytestmark = pytest.mark.bench

BUDGET_MS = 5.0
"""Time that judging the window of one of eight ranks may take."""

FULL_BUDGET_MS = 10.0
"""The same for the largest window there is: once a second, that is one percent of a core."""


def best_ms(judged: Callable[[], object], rounds: int = 40) -> float:
    """The shortest of some rounds: what it costs when nothing else runs."""
    times = []
    for _ in range(rounds):
        began = perf_counter()
        judged()
        times.append(perf_counter() - began)
    return 1000 * min(times)


def eight_ranks() -> Window:
    """A window of 120 steps of each of eight ranks, with samples of their GPUs."""
    records = ranks(
        lambda rank: {"phases": COMPUTE | {"comm": 20.0}, "idle": {"data": 0.5}, "queue_empty": 0.1, "gpu": busy()}, 8
    )
    timeline = Timeline()
    for record in sorted(records, key=lambda record: record.t):
        timeline.add(record)
    return timeline.window("r0", timeline.last_ns or 0)


def full_window() -> Window:
    """A window of 500 short steps with every kind of sample."""
    return window(
        trace(
            {name: ms / 20 for name, ms in STARVED.items()}, n=500, idle={"data": 2.8}, queue_empty=0.8, gpu=low(),
            device={"forward": 0.6, "backward": 1.0, "optimizer": 0.2}, loader={"num_workers": 4}, samples_s=0.1,
            host={"cpu_pct": 40, "cores": 16}, process={"cpu_pct": 60, "workers": workers(4, 95)},
        )
    )  # fmt: skip


@pytest.mark.parametrize(("make", "budget_ms"), [(eight_ranks, BUDGET_MS), (full_window, FULL_BUDGET_MS)])
def test_judging_a_window(make: Callable[[], Window], budget_ms: float, capsys: pytest.CaptureFixture[str]) -> None:
    seen = make()
    spent = best_ms(lambda: judge(seen))
    with capsys.disabled():
        print(f"\njudge, {make.__name__}: {spent:.2f} ms ({len(seen.steps)} steps, {len(seen.peers)} peers)")
    assert spent <= budget_ms


def test_judging_over_time_costs_no_more() -> None:
    seen, steady = full_window(), Judge()
    assert best_ms(lambda: steady.update(seen)) <= FULL_BUDGET_MS
