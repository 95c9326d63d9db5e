"""Columns and sketches: bounded, mergeable, and right within what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gputop.tiers import GAMMA, Columns, Sketch, percentile


@given(st.lists(st.floats(2, 1e12), min_size=1, max_size=300), st.floats(0, 1))
def test_a_sketched_quantile_is_within_its_error(values: list[float], q: float) -> None:
    sketch = Sketch()
    for value in values:
        sketch.add(value)
    exact = sorted(values)[int(q * (len(values) - 1))]
    found = sketch.quantile(q)
    assert found is not None
    assert abs(found - exact) <= exact * (GAMMA - 1)


def test_merged_sketches_count_as_one() -> None:
    both, one, other = Sketch(), Sketch(), Sketch()
    for value in range(1, 1000):
        both.add(value)
        (one if value % 3 else other).add(value)
    one.merge(other)
    assert one.bins == both.bins
    assert one.quantile(0.5) == both.quantile(0.5)


def test_an_empty_sketch_knows_no_quantile() -> None:
    assert Sketch().quantile(0.5) is None


def test_columns_keep_what_was_measured_apart_from_what_was_not() -> None:
    columns = Columns(10, 5)
    for t, value in ((0, 1.0), (5, 3.0), (25, 8.0)):
        columns.add(t, value)
    assert columns.means(0, 3) == (2.0, None, 8.0, None)
    assert columns.highs(0, 3) == (3.0, None, 8.0, None)


def test_a_late_value_finds_its_column() -> None:
    columns = Columns(10, 5)
    for t in (0, 30, 15, 12, 1):
        columns.add(t, float(t))
    assert columns.means(0, 3) == (0.5, 13.5, None, 30.0)


@given(st.lists(st.integers(0, 500), max_size=200))
def test_columns_are_bounded_and_ordered_whatever_comes(times: list[int]) -> None:
    columns = Columns(10, 7)
    for t in times:
        columns.add(t, 1.0)
    held = [bucket.column for bucket in columns.all()]
    assert len(held) <= 7
    assert held == sorted(set(held))


def test_percentile_interpolates() -> None:
    assert percentile([], 0.5) is None
    assert percentile([1.0, 3.0], 0.5) == 2.0
