"""Stretches of which only some steps are held: rates are those of all steps, shares those of an even sample."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.feed import Feed
from gputop.recording.thinning import BLOCK
from gputop.records import Fold, Record, Step
from gputop.sources.replay import ReplaySource
from gputop.thinned import evenly, rates, within_seconds
from gputop.view import RunView
from gputop.watching import Watch
from tests.sources.recordings import MS, T0, S, recording, run

SLOW_EVERY = 100
"""Every so many steps one waits for data and takes ten times as long."""


def fast(seconds: int, dur_us: int = 500) -> list[Record]:
    """A loop of 500 us; one step in a hundred waits 5 ms for data."""
    out: list[Record] = [run()]
    t, n = T0, 0
    while t < T0 + seconds * S:
        slow = n % SLOW_EVERY == SLOW_EVERY - 1
        dur = dur_us * 1000 * (10 if slow else 1)
        phases = {"data": dur * 9 // 10 if slow else 0, "forward": 200_000, "backward": 200_000}
        out.append(Step(t=t, run_id="a", n=n, dur_ns=dur, phases_ns=phases, samples=8, had_backward=True, loader_id=1))
        t, n = t + dur, n + 1
    return out


def shown(path: Path, records: list[Record], at_s: float) -> RunView:
    source = ReplaySource(recording(path, records))
    feed = Feed(source)
    source.pause()
    source.seek(T0 + int(at_s * S))
    feed._turn(False)
    feed._publish()
    source.close()
    (found,) = feed.view().runs
    return found


def judged(records: list[Record], at_s: float) -> RunView:
    watch = Watch()
    for record in records:
        if record.t + getattr(record, "dur_ns", 0) <= T0 + int(at_s * S):
            watch.add(record)  # type: ignore[arg-type]
    watch.tick(T0 + int(at_s * S))
    (found,) = watch.view(T0 + int(at_s * S)).runs
    return found


def test_a_thinned_recording_shows_what_was_there(tmp_path: Path) -> None:
    records = fast(30)
    then, now = judged(records, 25), shown(tmp_path / "r.gputop", records, 25)
    steps = [one for one in records if isinstance(one, Step)]
    rate = sum(T0 + 15 * S <= one.t < T0 + 25 * S for one in steps) / 10
    assert now.steps_per_s == pytest.approx(rate, rel=0.02)
    assert now.samples_per_s == pytest.approx(8 * rate, rel=0.02)
    assert now.steps_total == pytest.approx(then.steps_total, abs=rate)
    assert now.step_ms is not None
    assert now.step_ms["p50"] == pytest.approx(0.5)
    assert now.step_ms["max"] == pytest.approx(5.0)
    assert now.verdict.cause == then.verdict.cause
    assert now.verdict.confidence == pytest.approx(then.verdict.confidence, abs=0.2)
    shares = {share.phase: share.pct for share in now.ledger}
    was = {share.phase: share.pct for share in then.ledger}
    assert shares["data"] == pytest.approx(was["data"], abs=6)


def steps(count: int, every: int = 1, *, dur_ns: int = MS, kind: str = "train") -> tuple[Step, ...]:
    made = (
        Step(t=T0 + n * dur_ns, run_id="a", n=n, dur_ns=dur_ns, phases_ns={}, samples=2, kind=kind)
        for n in range(count)
    )
    return tuple(step for step in made if step.n % every == 0)


def folds(seconds: int, left: int) -> tuple[Fold, ...]:
    return tuple(
        Fold(t=T0 + second * S, run_id="a", steps=left, dur_ns=left * MS, phases_ns={}, samples=2 * left)
        for second in range(seconds)
    )


def test_rates_count_the_steps_left_out() -> None:
    found = rates(steps(5000, 10), folds(5, 900))
    assert found is not None
    assert found.steps == pytest.approx(1000)
    assert found.samples == pytest.approx(2000)


def test_rates_within_one_second_are_those_of_the_steps_themselves() -> None:
    found = rates(steps(900, 10), folds(1, 810))
    assert found is not None
    assert found.steps == pytest.approx(1000)


def test_nothing_left_out_says_nothing() -> None:
    assert rates(steps(100), ()) is None
    assert rates((), folds(2, 10)) is None


def test_an_even_sample_leaves_the_slow_ones_to_chance() -> None:
    kept = tuple(step for step in steps(5000) if step.n // BLOCK % 16 == 0 or step.n % 100 == 99)
    sample = evenly(kept, folds(5, 927))
    assert {step.n // BLOCK % 16 for step in sample} == {0}
    assert len(sample) == 10 * BLOCK


@pytest.mark.parametrize("period", [2, 4, 8, 10])
def test_what_recurs_every_few_steps_is_neither_always_nor_never_met(period: int) -> None:
    kept = tuple(step for step in steps(20_000) if step.n // BLOCK % 16 == 0)
    met = sum(step.n % period == period - 1 for step in evenly(kept, folds(20, 900)))
    assert met / len(evenly(kept, folds(20, 900))) == pytest.approx(1 / period, rel=0.1)


def test_evaluation_stays_and_few_steps_stay_all() -> None:
    evals = steps(30, kind="eval")
    sample = evenly((*evals, *steps(5000, 16)), folds(5, 900))
    assert [step for step in sample if step.kind == "eval"] == list(evals)
    few = steps(200, 16)
    assert evenly(few, folds(1, 187)) == few


def test_sums_of_other_seconds_stay_out() -> None:
    assert within_seconds(folds(20, 1), steps(3000)[1000:]) == folds(20, 1)[1:4]
    assert within_seconds(folds(3, 1), ()) == ()


def test_a_window_without_sums_is_as_it_was() -> None:
    watch = Watch()
    watch.add(run())
    for step in steps(1000, dur_ns=20 * MS):
        watch.add(step)
    window = watch.timeline.window("a", T0 + 20 * S)
    assert window.folds == ()
    assert len(window.steps) == 500
