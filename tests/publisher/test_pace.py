"""How many steps are told in detail: decided from measured costs, without a clock of its own."""

from __future__ import annotations

import pytest

from gputop.publisher.pace import MOST_EVERY, WINDOW, Pace

US = 1_000
MS = 1_000 * US


def run(pace: Pace, step_ns: int, *, cost_ns: int = 15 * US, steps: int = 8 * WINDOW, now: int = 1) -> int:
    """So many steps, looked at every four; returns when they are done."""
    for _ in range(steps // 4):
        pace.took(4, 4 * cost_ns)
        now += 4 * step_ns
        pace.observe(4, now, 6)
    return now


@pytest.mark.parametrize(
    ("step_ns", "every"), [(100 * MS, 1), (2 * MS, 1), (MS, 2), (400 * US, 4), (20 * US, MOST_EVERY)]
)
def test_one_percent_is_the_most_that_steps_told_in_detail_take(step_ns: int, every: int) -> None:
    pace = Pace()
    run(pace, step_ns)
    assert pace.every == every
    assert every == MOST_EVERY or 15 * US / every <= 0.01 * step_ns


def test_the_cost_of_entries_counts_where_steps_are_not_measured_as_a_whole() -> None:
    pace = Pace()
    for _ in range(100):
        pace.noted(1500)
        pace.has_read(24, 24 * 1000)
    now = 1
    for _ in range(WINDOW):
        now += 4 * 400 * US
        pace.observe(4, now, 6)
    assert pace.every == 4
    assert pace.mark_ns(3) == pytest.approx(3000, rel=0.01)


def test_k_does_not_go_up_and_down_where_the_cost_is_near_a_limit() -> None:
    pace = Pace()
    now = run(pace, 1400 * US)
    seen = set()
    for turn in range(40):  # 0.8 to 1.2 percent, in turn
        now = run(pace, 1400 * US, cost_ns=(11 if turn % 2 else 17) * US, steps=WINDOW, now=now)
        seen.add(pace.every)
    assert seen == {2}


def test_a_loop_that_has_slowed_down_is_told_in_full_within_a_second_or_so() -> None:
    pace = Pace()
    now = run(pace, 50 * US)
    assert pace.every > 8
    run(pace, 500 * MS, steps=8, now=now)
    assert pace.every == 1


def test_the_first_steps_are_all_told() -> None:
    pace = Pace()
    run(pace, 50 * US, steps=WINDOW)
    assert pace.every == 1


def test_a_stall_of_the_machine_is_not_the_cost_of_an_entry() -> None:
    pace = Pace()
    for _ in range(50):
        pace.noted(1000)
    pace.noted(50 * MS)
    assert pace.note_ns < 1600


@pytest.mark.parametrize("every", [2, 4, 8, 64])
@pytest.mark.parametrize("period", [2, 3, 4, 8, 10, 16, 50])
def test_what_comes_every_so_many_steps_is_met_as_often_as_the_rest(every: int, period: int) -> None:
    pace = Pace()
    pace.every = every
    at, told = 0, []
    for _ in range(20_000):
        at += pace.pass_over() + 1
        told.append(at)
    assert at / len(told) == pytest.approx(every, rel=0.02)
    met = [sum(n % period == place for n in told) * period / len(told) for place in range(period)]
    assert max(met) < 1.2
    assert min(met) > 0.8
