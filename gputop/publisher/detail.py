"""Which steps the training thread notes in detail, and when it reads its own notes. All of it runs on that thread.

While `skip` is set, the open step is one of which only the time is noted: no mark of it is made. Each request for a
batch counts it down; at the last, and wherever something unusual comes up, all is noted again.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from gputop.publisher.entries import COUNT, OWN_COST, OWN_TIME, TICK, TURN, WORKED

if TYPE_CHECKING:
    from gputop.publisher.core import Publisher
    from gputop.publisher.segment import Source

NO_THREAD = -1
"""The training thread's id where there is none to watch (any more)."""

LOOK_EVERY = 4
"""Requests for batches between two looks at how much is noted."""

FAST_NS = LOOK_EVERY * 2_000_000
"""The training thread reads the notes of steps that come faster than this itself, LOOK_EVERY steps at a time: no step
feels that much, while two threads that want the same interpreter at once cost more than either does. Notes of slower
steps are left to the sending thread, which mostly finds the interpreter free."""

READ_LEAST = 24
"""Entries below which reading waits for more."""

READ_FROM = 1024
"""Entries that the training thread reads in any case."""

COST_EVERY = 16
"""Looks between two times that the cost of a mark is told."""

SLOW_NS = 20_000_000
"""After a step of which only the time was noted and which took longer, the next one is told in detail."""

STEADY = 4
"""Plain steps in a row before some of a pass are not told in detail."""


def passes_over(publisher: Publisher, source: Source) -> bool:
    """The batch of a step is here, and all was noted so far: whether only its time is noted from here on."""
    if publisher.due or source.steady < STEADY or not publisher.started or publisher.profiles():
        publisher.due = False
        return False
    publisher.skip = skip = publisher.pace.pass_over()
    if not skip:
        return False
    publisher.told, publisher.worked = source, False
    publisher.noting = publisher.live = NO_THREAD
    return True


def in_detail(publisher: Publisher, now: int) -> None:
    """Note everything again from `now` on."""
    if not publisher.skip:
        return
    publisher.skip = 0
    publisher.due = True
    publisher.noting = publisher.live = publisher.thread
    publisher.put((WORKED, publisher.worked, now))


def unusual(publisher: Publisher) -> None:
    """Something happens that is no part of most steps: note it, and some steps after it."""
    if publisher.skip and publisher.told is not None:
        publisher.told.steady = 0
        in_detail(publisher, monotonic_ns())


def turned(publisher: Publisher, which: int) -> None:
    """An optimizer (`which`: its id) has stepped where no loader is asked: with that of one of them a step ends."""
    now, skip = monotonic_ns(), publisher.skip
    source = publisher.tape.ledger.bare_of(which)
    if source is not None:
        if skip > 1 and now - publisher.asked_at < SLOW_NS:
            publisher.skip = skip - 1
            publisher.worked = False
            publisher.put((TICK, source, now))
        elif skip:
            publisher.worked = True
            in_detail(publisher, now)
            publisher.put((TURN, source, now))
        elif publisher.every > 1 and passes_over(publisher, source):
            publisher.put((COUNT, None, now))
        publisher.asked_at = now
    publisher.turns += 1
    if publisher.turns % LOOK_EVERY == 0:
        look(publisher, now)


def look(publisher: Publisher, arrived: int) -> None:
    """Every LOOK_EVERY batches, one of which `arrived` just now: read the notes? What does all this cost?"""
    try:
        pace, loop = publisher.pace, publisher.tape.ledger.loop
        now = monotonic_ns()
        if not publisher.skip:
            pace.noted(now - arrived)
        took, publisher.looked_at = now - publisher.looked_at, now
        waiting = len(publisher.entries)
        if waiting >= READ_FROM or (waiting >= READ_LEAST and took < FAST_NS):
            publisher.read_tape(waiting)
            done = monotonic_ns()
            pace.has_read(waiting, done - now)
            if not publisher.skip:
                publisher.put((OWN_TIME, now, done))
        elif took >= FAST_NS:
            pace.has_read(0, 0)
        if loop.regions is not None:
            pace.took(loop.detailed - publisher.costed, publisher.spent_ns)
            publisher.costed, publisher.spent_ns = loop.detailed, 0
        publisher.looks += 1
        if publisher.looks % COST_EVERY == 0:
            publisher.put((OWN_COST, pace.mark_ns(loop.marks), now))
        steps, publisher.stepped = loop.steps - publisher.stepped, loop.steps
        if pace.observe(steps, now, 2 * loop.marks):
            publisher.every = pace.every
    except Exception as error:
        publisher.fault("steps", error)
