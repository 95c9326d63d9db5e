"""Batches that a framework announces, and rests between trainings, on the step clock."""

from __future__ import annotations

import pytest

from gputop.publisher.segment import Source
from tests.publisher.driver import MS, Acted
from tests.publisher.test_regions import Queue, acted_on, records


def given(acted: Acted, source: Source, ms: float, *, updates: bool | None = None, waited: bool = True) -> None:
    """The framework is free, waits so long and has a batch."""
    since = acted.now
    acted.work(ms)
    acted.ledger.given(source, since if waited else None, acted.now, 4, updates)


def framework_step(acted: Acted, source: Source, ms: float) -> None:
    given(acted, source, ms)
    acted.work(2)
    acted.backward(3)
    acted.optimizer(1)


def test_announced_batches_make_steps_with_the_wait_before_them() -> None:
    acted = Acted()
    source = Source(None, declared=True)
    for _ in range(3):
        framework_step(acted, source, 5)
    acted.ledger.rest(acted.now)
    told = acted.finish()
    assert [(kind, length) for kind, length, _ in told] == [("train", 11)] * 3
    assert all(phases == {"data": 5, "forward": 2, "backward": 3, "optimizer": 1} for _, _, phases in told)
    assert [seg.first for seg in acted.steps] == [True, False, False]
    assert not any(seg.partial for seg in acted.steps)


def test_a_mark_made_since_the_last_batch_is_no_wait() -> None:
    acted = Acted()
    source = Source(None, declared=True)
    framework_step(acted, source, 5)
    since = acted.now
    with acted.phase("checkpoint"):
        acted.work(20)
    acted.work(4)
    acted.ledger.given(source, since, acted.now, 4, None)
    acted.backward(1)
    told = acted.finish()
    assert told[0][2]["checkpoint"] == 20
    assert told[1][2]["data"] == 4
    assert told[0][1] + told[1][1] == 11 + 20 + 4 + 1


def test_a_batch_still_to_be_asked_for_has_no_wait_yet_and_whether_it_updates_is_told() -> None:
    acted = Acted(knows_backward=False)
    source = Source(None, declared=True)
    for updates in (False, True):
        given(acted, source, 1, updates=updates, waited=False)
        with acted.phase("train_step"):
            acted.work(6)
    acted.ledger.rest(acted.now)
    assert [seg.optimizer for seg in acted.steps] == [False, True]
    assert all("data" not in seg.phases and seg.phases["train_step"] == 6 * MS for seg in acted.steps)


def test_a_validation_by_a_loader_is_no_training_between_announced_batches() -> None:
    acted = Acted()
    source = Source(None, declared=True)
    framework_step(acted, source, 1)
    val = acted.construct(Source(7))
    for _ in range(3):
        acted.batch(val, 1)
        acted.work(2)
    acted.stop(val)
    framework_step(acted, source, 1)
    told = acted.finish()
    assert [kind for kind, _, _ in told].count("train") == 2
    assert told[0][2]["eval"] == 9


def test_the_device_idles_in_a_wait_that_nobody_saw_begin() -> None:
    queue = Queue()
    acted = acted_on(queue)
    source = Source(None, declared=True)
    for _ in range(4):
        given(acted, source, 10)
        queue.launch(2)
        acted.work(1)
        acted.backward(1)
        acted.optimizer(1)
    acted.work(10)
    acted.ledger.finish(acted.now)
    for record in records(acted)[1:3]:
        assert record.gpu_idle_ns is not None
        assert record.gpu_idle_ns["data"] == pytest.approx(10 * MS, abs=MS)


def test_after_a_rest_nothing_counts_until_the_training_goes_on() -> None:
    acted = Acted()
    source = acted.construct(Source(1))
    acted.train_step(source)
    acted.train_step(source)
    acted.ledger.rest(acted.now)
    acted.work(1000)
    assert acted.ledger.enter("eval", acted.now) is None
    acted.ledger.rest(acted.now)
    again = acted.construct(Source(1, 1))
    acted.train_step(again)
    acted.ledger.rest(acted.now, cut_short=True)
    told = acted.finish()
    assert [length for _, length, _ in told] == [7, 7, 7]
    assert [seg.partial for seg in acted.steps] == [False, False, True]
    assert [seg.n for seg in acted.steps] == [0, 1, 2]


def test_a_mark_left_open_over_a_rest_ends_without_a_trace() -> None:
    acted = Acted()
    source = acted.construct(Source(1))
    acted.train_step(source)
    with acted.phase("mine"):
        acted.work(2)
        acted.ledger.rest(acted.now)
        acted.work(50)
    acted.train_step(source)
    told = acted.finish()
    assert [length for _, length, _ in told] == [9, 7]
    assert told[0][2]["mine"] == 2
