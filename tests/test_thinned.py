"""Stretches of which only some steps are held: rates are those of all steps, shares those of an even sample."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest

from gputop.diagnosis.numbers import ranked
from gputop.feed import Feed
from gputop.recording.reader import Recording
from gputop.recording.thinning import BLOCK
from gputop.records import Fold, Record, Step
from gputop.report.reading import judge_file
from gputop.sources.replay import ReplaySource
from gputop.thinned import evenly, rates, weights, within_seconds
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


def test_what_was_kept_for_what_it_is_counts_as_often_as_it_was_and_a_block_as_the_ones_left_out() -> None:
    made = steps(5000)
    kept = tuple(step for step in made if step.n // BLOCK % 16 == 0 or step.n % 100 == 99)
    wide = evenly(kept, folds(5, 927))
    beside = [step for step in wide if step.n // BLOCK % 16]
    assert beside == [step for step in kept if step.n // BLOCK % 16 and step.t >= wide[0].t]
    assert len(wide) == pytest.approx(wide[-1].n - wide[0].n + 1, rel=0.2)
    assert [one.n for one in wide[-BLOCK:]] != [wide[-1].n] * BLOCK


@pytest.mark.parametrize("period", [2, 4, 8, 10])
def test_what_recurs_every_few_steps_is_neither_always_nor_never_met(period: int) -> None:
    kept = tuple(step for step in steps(20_000) if step.n // BLOCK % 16 == 0)
    met = sum(step.n % period == period - 1 for step in evenly(kept, folds(20, 900)))
    assert met / len(evenly(kept, folds(20, 900))) == pytest.approx(1 / period, rel=0.1)


def validating(seconds: int) -> list[Record]:
    """A loop of 1 ms steps, of which every 500th validates for 15 ms: 2.9 % of the time."""
    out: list[Record] = [run()]
    t, n = T0, 0
    while t < T0 + seconds * S:
        phases = {"data": 500_000, "forward": 180_000, "backward": 280_000}
        phases |= {"eval": 15 * MS} if n % 500 == 499 else {}
        dur = sum(phases.values()) + 40_000
        out.append(
            Step(t=t, run_id="a", n=n, dur_ns=dur, phases_ns=phases, samples=8, had_backward=True, loader_id=1, epoch=0)
        )
        t, n = t + dur, n + 1
    return out


def test_rare_validations_weigh_in_a_thinned_recording_what_they_did_in_the_run(tmp_path: Path) -> None:
    records = validating(25)
    all_told = [one for one in records if isinstance(one, Step)]
    true_pct = 100 * sum(one.phases_ns.get("eval", 0) for one in all_told) / sum(one.dur_ns for one in all_told)
    path = tmp_path / "r.gputop"
    then, now = judged(records, 23.7), shown(path, records, 23.7)
    with contextlib.closing(Recording(path)) as opened:
        assert sum(isinstance(one, Step) for one in opened.records()) < len(all_told) / 5
    was, shares = ({share.phase: share.pct for share in view.ledger} for view in (then, now))
    for phase in ("data", "forward", "backward", "eval"):
        assert shares[phase] == pytest.approx(was[phase], abs=1), phase
    assert shares["eval"] == pytest.approx(true_pct, abs=1)
    assert now.verdict.cause == then.verdict.cause == "input-workers"
    assert now.steps_per_s == pytest.approx(then.steps_per_s, rel=0.02)
    told, warnings = judge_file(path)
    assert not warnings
    (spread,) = [account.every for account in told.accounts.values()]
    assert spread is not None
    lengths = sorted(one.dur_ns / MS for one in all_told)
    assert (spread.p50, spread.p95, spread.p99) == tuple(ranked(lengths, q) for q in (0.5, 0.95, 0.99))
    (report,) = told.runs.values()
    assert {segment.cause for segment in report.segments} <= {"warmup", "input-workers"}
    assert report.verdict.cause == "input-workers"


def test_weights_are_of_each_second_and_of_the_next_where_it_has_none() -> None:
    train = [Step(t=T0 + ms * MS, run_id="a", n=n, dur_ns=MS, phases_ns={}) for n, ms in ((0, 0), (8, 8), (9, 2500))]
    left = [Fold(t=T0 + s * S, run_id="a", steps=8, dur_ns=1, phases_ns={}, counted=True) for s in (0, 1, 2, 4)]
    assert weights(train, left) == [5, 5, 25]
    validates = msgspec.structs.replace(train[1], phases_ns={"eval": 5})
    assert weights([train[0], validates, train[2]], left) == [9, 1, 25]
    assert weights([validates], left[:1]) == [1]


def test_evaluation_stays_and_few_steps_stay_all() -> None:
    evals = steps(30, kind="eval")
    kept = tuple(step for step in steps(5000) if step.n // BLOCK % 16 == 0)
    sample = evenly((*evals, *kept), folds(5, 936))
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
