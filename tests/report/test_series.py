"""What is drawn over time: few columns, nothing lost at the extremes, shares that sum to a hundred."""

from __future__ import annotations

from itertools import zip_longest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.records import Event, Step
from gputop.report.judged import judge_trace
from gputop.report.series import COLUMNS, MARKS, StepColumns, axis, marks
from tests.report.traces import MS, START, S, alone, job


@given(st.integers(0, 2**62), st.integers(0, 400 * 86_400 * S))
def test_any_span_fits_into_few_columns(start: int, span: int) -> None:
    found = axis(start, start + span)
    assert 1 <= found.columns <= COLUMNS
    assert found.columns * found.width_ns >= span
    assert found.column(start) == 0
    assert found.column(start + span) == found.columns - 1


def test_a_long_recordings_columns_are_whole_minutes() -> None:
    assert axis(0, 86_400 * S, least_s=60).width_ns % (60 * S) == 0
    assert axis(0, 7 * 86_400 * S, least_s=60).width_ns % (60 * S) == 0


def test_the_shortest_and_the_longest_step_stay() -> None:
    lengths = [100] * 3000
    lengths[777], lengths[2222] = 9, 5000
    columns, t = StepColumns(axis(START, START + 400 * S)), START
    for n, length in enumerate(lengths):
        columns.add(Step(t=t, run_id="a", n=n, dur_ns=length * MS, phases_ns={}))
        t += length * MS
    drawn = columns.series()
    assert min(one for one in drawn.low if one is not None) == pytest.approx(9)
    assert max(one for one in drawn.high if one is not None) == pytest.approx(5000)
    assert len(drawn.p50) <= COLUMNS


def test_a_step_longer_than_a_column_stands_in_each_that_it_covers() -> None:
    columns = StepColumns(axis(START, START + 10 * S))
    columns.add(Step(t=START + S // 2, run_id="a", n=0, dur_ns=4 * S, phases_ns={"data": 2 * S}))
    drawn = columns.series()
    assert [value is not None for value in drawn.p50] == [True] * 5 + [False] * 5
    assert [value for value in drawn.phases["data"] if value is not None] == [pytest.approx(50)] * 5


def test_shares_sum_to_a_hundred_in_every_column() -> None:
    judged = judge_trace(sorted(job(2, 60), key=lambda one: one.t), "x")
    for run in judged.series.runs.values():
        for column in zip_longest(*run.phases.values()):
            known = [value for value in column if value is not None]
            assert not known or sum(known) == pytest.approx(100)


def test_without_a_gpu_there_is_nothing_drawn_of_one() -> None:
    assert judge_trace(alone(), "x").series.gpus == {}


def test_of_very_many_marks_the_rare_ones_are_kept() -> None:
    events = [Event(t=n, kind="gc") for n in range(10_000)] + [Event(t=5, kind="oom")]
    found = marks(events)
    assert len(found) <= MARKS
    assert any(mark.kind == "oom" for mark in found)
    assert [mark.t_ns for mark in found] == sorted(mark.t_ns for mark in found)
