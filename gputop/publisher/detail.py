"""Which steps the training thread notes in detail, and when it reads its own notes. All of it runs on that thread.

While `skip` is set, the open step is one of which only the time is noted: no mark of it is made. Each request for a
batch counts it down; at the last, and wherever something unusual comes up, all is noted again.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from gputop.publisher.counted import ticks
from gputop.publisher.entries import COUNT, OWN_COST, OWN_TIME, REQUEST, RESUME, TICKS, TURN, WORKED
from gputop.publisher.pace import Pace
from gputop.publisher.tally import Row, S

if TYPE_CHECKING:
    from gputop.publisher.core import Publisher
    from gputop.publisher.segment import Source

NO_THREAD = -1
"""The training thread's id where there is none to watch (any more)."""

LOOK_EVERY = 4
"""Requests for batches between two looks at how much is noted, where another thread reads it."""

FAST_NS = 2_000_000
"""The training thread reads its notes itself where steps take less than this, since two threads that want the same
interpreter at once cost more than either does. Notes of slower steps are left to the sending thread, which mostly finds
the interpreter free."""

READ_ROW = 16
"""Entries read in one step: those of a step told in detail and of few marks, and that mostly in a counted one after it,
so that no step pays for both. Where more than four times as many wait, a quarter of them."""

READ_FROM = 1024
"""Entries from which the training thread reads in any case."""

COST_EVERY = 64
"""Looks between two times that the cost of a mark is told."""

SLOW_NS = 20_000_000
"""After a step of which only the time was noted and which took longer, the next one is told in detail."""

STEADY = 4
"""Plain steps in a row before some of a pass are not told in detail."""


class Decided:
    """What is remembered from one decision to the next: of the looks at the notes, the steps and the cost so far."""

    __slots__ = ("asked", "costed", "counted", "due", "looked_at", "looks", "pace", "spent_ns", "stepped", "turns")

    def __init__(self) -> None:
        self.pace = Pace()
        self.due = False
        """The next step is told in detail in any case."""
        self.looks = self.turns = self.counted = 0
        self.looked_at = self.asked = 0
        """When the notes were looked at last, ns, and how many batches had been asked for by then."""
        self.stepped = self.costed = 0
        """Steps, and steps told in detail, by then."""
        self.spent_ns = 0
        """What telling steps with device marks has taken since the last that was told."""


def passes_over(publisher: Publisher, source: Source) -> bool:
    """The batch of a step is here, and all was noted so far: whether only its time is noted from here on."""
    decided = publisher.decided
    if decided.due or source.steady < STEADY or not publisher.started or publisher.profiles():
        decided.due = False
        return False
    publisher.skip = skip = decided.pace.pass_over()
    if not skip:
        return False
    publisher.told, publisher.worked = source, False
    publisher.noting = publisher.live = NO_THREAD
    publisher.tally.begin(publisher.asked_at)
    return True


def take_counted(publisher: Publisher, asked: int) -> bool:
    """The step that ended when this batch, which is here now, was asked for is one more that was only counted. Whether
    the one that begins with it is another."""
    tally, skip = publisher.tally, publisher.skip
    if not skip:  # something unusual came up while it was waited for
        publisher.put((TICKS, (publisher.told, Row(1, asked, asked)), asked))
        return True
    took = asked - tally.last
    tally.last = asked
    if took > tally.most:  # noqa: PLR1730 (no call here: see Tally)
        tally.most = took
    if took < tally.least:  # noqa: PLR1730
        tally.least = took
    if not tally.steps:
        tally.first = asked
    tally.steps += 1
    if skip == 1:
        return False
    publisher.skip = skip - 1
    if asked >= tally.until:
        hand_over(publisher)
    if publisher.reads and publisher.entries:
        read_some(publisher)
    return True


def miss_counted(publisher: Publisher, source: Source | None, asked: int) -> None:
    """No such batch came: how the pass ends is noted."""
    in_detail(publisher, asked)
    publisher.put((REQUEST, source, asked))


def hand_over(publisher: Publisher) -> None:
    """What was counted goes to the step clock, before anything else that is noted."""
    with publisher.tally.lock:
        row = publisher.tally.take()
        if row is not None:
            publisher.decided.counted += row.steps
            publisher.put((TICKS, (publisher.told, row), row.last))


def take_over(publisher: Publisher, now: int) -> None:
    """The same, for the sending thread, from a training thread that has been in one step for long. Both locks held."""
    tally, told = publisher.tally, publisher.told
    if told is not None and now - tally.last > S and not publisher.entries:
        row = tally.take()
        if row is not None:
            publisher.decided.counted += row.steps
            ticks(publisher.tape.ledger, told, row)


def resume(publisher: Publisher, samples: int | None, now: int) -> None:
    """The last of them was done as expected, and the batch came at `now` of a step of which all is noted again."""
    tally = publisher.tally
    publisher.requests += 1
    with tally.lock:
        row = tally.take() or Row(0, tally.last, tally.last)  # the sending thread has taken it
        publisher.noting = publisher.live = publisher.thread
        publisher.skip = 0
        publisher.decided.counted += row.steps
        publisher.put((RESUME, (publisher.told, row, samples), now))


def in_detail(publisher: Publisher, now: int) -> None:
    """Note everything again from `now` on."""
    if not publisher.skip:
        return
    hand_over(publisher)
    publisher.skip = 0
    publisher.decided.due = True
    publisher.noting = publisher.live = publisher.thread
    publisher.put((WORKED, publisher.worked, now))


def unusual(publisher: Publisher) -> None:
    """Something happens that is no part of most steps: note it, and some steps after it."""
    if publisher.skip and publisher.told is not None:
        publisher.told.steady = 0
        in_detail(publisher, monotonic_ns())


def turned(publisher: Publisher, which: int, now: int) -> None:
    """An optimizer (`which`: its id) has stepped where no loader is asked: with that of one of them a step ends."""
    skip, before = publisher.skip, publisher.asked_at
    decided = publisher.decided
    source = publisher.tape.ledger.bare_of(which)
    if source is not None:
        publisher.asked_at = now
        if skip > 1 and now - before < SLOW_NS:
            publisher.worked = False
            take_counted(publisher, now)
            return
        if skip:
            publisher.worked = True
            in_detail(publisher, now)
            publisher.put((TURN, source, now))
        elif publisher.every > 1 and passes_over(publisher, source):
            publisher.put((COUNT, None, now))
            return
    decided.turns += 1
    if publisher.reads or decided.turns % LOOK_EVERY == 0:
        look(publisher, now, decided.turns)


def look(publisher: Publisher, arrived: int, asked: int) -> None:
    """The batch of a step told in detail `arrived` just now, the `asked`th of these: what does telling them cost?"""
    try:
        decided, loop = publisher.decided, publisher.tape.ledger.loop
        pace, asked = decided.pace, asked + decided.counted
        now = monotonic_ns()
        pace.noted(now - arrived)
        took, decided.looked_at = now - decided.looked_at, now
        reads = took < FAST_NS * (asked - decided.asked) and loop.regions is None
        decided.asked = asked
        if not reads:
            pace.has_read(0, 0)
        publisher.reads = reads
        waiting = len(publisher.entries)
        if waiting >= (READ_ROW if reads else READ_FROM):
            read_some(publisher)
        if loop.detailed > decided.costed and loop.regions is not None:
            pace.took(loop.detailed - decided.costed, decided.spent_ns)
            decided.costed, decided.spent_ns = loop.detailed, 0
        decided.looks += 1
        if decided.looks % COST_EVERY == 0:
            publisher.put((OWN_COST, pace.mark_ns(loop.marks), now))
        steps, decided.stepped = loop.steps - decided.stepped, loop.steps
        if pace.observe(steps, now, 2 * loop.marks):
            publisher.every = pace.every
    except Exception as error:
        publisher.fault("steps", error)


def read_some(publisher: Publisher) -> None:
    """Read some of what is noted, on the thread that notes it."""
    begun, waiting = monotonic_ns(), len(publisher.entries)
    row = min(waiting, max(READ_ROW, waiting >> 2))
    publisher.read_tape(row)
    done = monotonic_ns()
    publisher.decided.pace.has_read(row, done - begun)
    if publisher.skip:
        publisher.tally.own_ns += done - begun
    else:
        publisher.put((OWN_TIME, begun, done))
