"""An hour without a viewer, acted out: what is held stays bounded by time and number, whatever the loop does."""

from __future__ import annotations

import gc

from gputop.publisher.ring import EVENTS, FOLDS_NS, HELD, INBOX, Ring, S
from gputop.publisher.segment import Source
from gputop.publisher.tape import Tape, begin, end, optimizer
from gputop.records import Event
from tests.publisher.driver import Acted

MINUTES = 60
STEPS = 300
"""A minute's: steps of 0.2 s."""

GROWTH = 300
"""Objects that forty minutes may add: a step kept is three of them, so that one in a hundred kept for ever shows."""


def minute(acted: Acted, ring: Ring, source: Source) -> None:
    """A minute of training with a read of a value, a validation pass and a checkpoint; the sending thread looks."""
    for n in range(STEPS):
        acted.batch(source, 40)
        acted.work(40)
        acted.backward(60)
        acted.optimizer(55)
        acted.sync(5, f"train.py:{n % 7}")
    other = acted.construct(Source(1))
    for _ in range(5):
        acted.batch(other, 1)
        acted.work(10)
    acted.stop(other)
    for seg in acted.steps:
        ring.put(seg)
    acted.steps.clear()
    for kind, start, ns, label in acted.notes:
        ring.put(Event(t=start, kind=kind, run_id="r", label=label, dur_ns=ns))
    acted.notes.clear()
    while ring.collect(40):
        continue


def test_an_hour_without_a_viewer_holds_what_ten_minutes_held() -> None:
    acted, ring = Acted(), Ring()
    source = acted.construct(Source(0))
    sizes = []
    gc.collect()
    gc.freeze()  # what the other tests have left is not looked through each minute
    try:
        for _ in range(MINUTES):
            minute(acted, ring, source)
            if ring.first:
                gc.collect()
                sizes.append(len(gc.get_objects()))
    finally:
        gc.unfreeze()
    assert acted.now > 3600 * S
    assert len(ring.held) == HELD
    assert ring.dropped == len(ring.inbox) == 0
    folds = ring.folds("r", lambda ns: ns)
    assert len(folds) <= 2 * (FOLDS_NS // S + 2), "seconds kept, of training steps and of others"
    assert len(ring.events) <= EVENTS
    assert sizes[-1] - sizes[10] < GROWTH


def test_where_the_sending_thread_never_comes_the_newest_is_given_up_and_counted() -> None:
    acted, ring = Acted(), Ring()
    source = acted.construct(Source(0))
    for _ in range(10_000):
        acted.batch(source, 1)
        acted.backward(1)
    for seg in acted.steps:
        ring.put(seg)
    assert len(ring.inbox) == HELD + INBOX
    assert ring.dropped == len(acted.steps) - HELD - INBOX


def test_marks_never_ended_leave_no_trail_on_the_tape() -> None:
    tape = Tape(lambda *_: None)
    acted = Acted()
    tape.ledger = acted.ledger
    source = acted.construct(Source(0))
    for n in range(5_000):
        acted.batch(source, 1)
        optimizer(tape, 1, acted.now)
        begin(tape, f"phase {n}", acted.now)
        end(tape, f"phase {n}", acted.now)
    assert len(tape.optimizers) <= 9
    assert len(tape.phases) <= 257
