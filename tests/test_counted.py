"""A run that tells only every k-th step in detail is judged, shown and reported as one that tells them all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gputop.publisher.pace import Pace
from gputop.records import Fold, Record, Run, Step
from gputop.report.exact import epochs
from gputop.thinned import as_they_came
from gputop.view import RunView
from gputop.watching import Watch
from tests.recording.test_continued import contents, record
from tests.sources.recordings import T0, S, run

US = 1_000
EVAL_EVERY = 100
"""Steps between two evaluations, each as long as 20 steps."""


def loop(seconds: int, *, evaluates: bool = False) -> list[Step]:
    """Steps of 500 us that wait for data half of the time; every tenth logs for 200 us."""
    out: list[Step] = []
    t, n = T0, 0
    while t < T0 + seconds * S:
        phases = {"data": 260 * US, "forward": 90 * US, "backward": 110 * US, "optimizer": 30 * US}
        if n % 10 == 9:
            phases["log"] = 200 * US
        if evaluates and n % EVAL_EVERY == EVAL_EVERY - 1:
            phases["eval"] = 10_000 * US
        dur = sum(phases.values()) + 10 * US
        out.append(
            Step(
                t=t, run_id="a", n=n, dur_ns=dur, phases_ns=phases, samples=8, had_backward=True, loader_id=1,
                first_of_epoch=True if n % 5_000 == 0 else None, epoch=n // 5_000,
            )
        )  # fmt: skip
        t, n = t + dur, n + 1
    return out


def backed_off(steps: list[Step], every: int) -> list[Record]:
    """The same as a publisher tells it that takes too long for them all."""
    pace, out, skip = Pace(), list[Record](), 0
    pace.every = every
    seconds: dict[int, tuple[list[Step], list[Step]]] = {}
    for step in steps:
        told, counted = seconds.setdefault(step.t // S, ([], []))
        if step.first_of_epoch or not skip:
            told.append(step)
            skip = pace.pass_over()
        elif "eval" in step.phases_ns:
            told.append(msgspec.structs.replace(step, phases_ns={"eval": step.phases_ns["eval"]}))
            skip -= 1
        else:
            counted.append(step)
            skip -= 1
    for told, counted in seconds.values():
        plain = [step for step in told if "eval" not in step.phases_ns]
        whole, share = sum(step.dur_ns for step in counted), 0.0
        if plain:
            share = whole / sum(step.dur_ns for step in plain)
        names = dict.fromkeys(name for step in plain for name in step.phases_ns)
        phases = {name: round(share * sum(step.phases_ns.get(name, 0) for step in plain)) for name in names}
        out += told
        if counted:
            out.append(
                Fold(
                    t=counted[0].t, run_id="a", steps=len(counted), dur_ns=whole, phases_ns=phases,
                    samples=8 * len(counted), max_ns=max(step.dur_ns for step in counted), kind="train", counted=True,
                )
            )  # fmt: skip
    return out


def judged(run_record: Run, records: list[Record], at_s: float) -> RunView:
    watch = Watch()
    watch.add(run_record)
    for one in records:
        if isinstance(one, Step | Fold) and one.t + one.dur_ns <= T0 + int(at_s * S):
            watch.add(one)
    watch.tick(T0 + int(at_s * S))
    (found,) = watch.view(T0 + int(at_s * S)).runs
    return found


@pytest.mark.parametrize("every", [2, 4, 8])
@pytest.mark.parametrize("evaluates", [False, True])
def test_cause_shares_and_rates_are_those_of_all_steps(every: int, evaluates: bool) -> None:
    steps = loop(30, evaluates=evaluates)
    all_told = judged(run(), list(steps), 29)
    some = judged(msgspec.structs.replace(run(), detail_every=every), backed_off(steps, every), 29)
    assert some.verdict.cause == all_told.verdict.cause
    shares = {share.phase: share.pct for share in some.ledger}
    assert evaluates == ("eval" in shares)
    for share in all_told.ledger:
        assert shares[share.phase] == pytest.approx(share.pct, rel=0.1, abs=4 if evaluates else 2), share.phase
    assert some.steps_per_s == pytest.approx(all_told.steps_per_s, rel=0.1)
    assert some.samples_per_s == pytest.approx(all_told.samples_per_s, rel=0.1)
    assert some.steps_total == pytest.approx(all_told.steps_total, rel=0.05)
    assert some.step_ms is not None
    assert all_told.step_ms is not None
    assert some.step_ms["p50"] == pytest.approx(all_told.step_ms["p50"], rel=0.1)
    said = [notice for notice in some.verdict.notices if "in detail" in notice]
    assert len(said) == 1
    assert said[0].startswith(f"every {every}{'nd' if every == 2 else 'th'} step in detail")
    assert not any("never arrived" in notice for notice in some.verdict.notices)


def test_steps_stand_for_as_many_as_there_were_and_evaluations_for_themselves() -> None:
    steps = [one for one in backed_off(loop(3, evaluates=True), 8) if isinstance(one, Step)]
    wide = as_they_came(tuple(steps))
    evaluations = [step for step in wide if "eval" in step.phases_ns]
    assert evaluations == [step for step in steps if "eval" in step.phases_ns and step.t >= wide[0].t]
    assert len(wide) == pytest.approx(wide[-1].n - wide[0].n + 1, rel=0.05)
    alone = tuple(step for step in steps if "eval" not in step.phases_ns)
    assert as_they_came(alone) == alone


def test_counted_steps_are_recorded_once_by_a_recorder_that_comes_again(tmp_path: Path) -> None:
    path = tmp_path / "a.gputop"
    told = backed_off(loop(4), 4)
    begun = msgspec.structs.replace(run(), offset_ns=12345)
    half = [one for one in told if one.t < T0 + 2 * S]
    record(path, [begun, *half])
    record(path, [begun, *told])
    sums = [one for one in contents(path) if isinstance(one, Fold) and one.counted]
    assert sums == [one for one in told if isinstance(one, Fold)]


def test_epochs_have_the_steps_that_were_counted_too() -> None:
    steps = loop(8)
    some = [one for one in backed_off(steps, 8) if isinstance(one, Step)]
    assert [one.steps for one in epochs(some, some[-1].t, len(steps))] == [
        one.steps for one in epochs(steps, steps[-1].t)
    ]
