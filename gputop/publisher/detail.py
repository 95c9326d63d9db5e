"""Which steps the training thread notes in detail, and when it reads its own notes. All of it runs on that thread.

While `skip` is set, the open step is one of which only the time is noted: no mark of it is made. Each request for a
batch counts it down; at the last, and wherever something unusual comes up, all is noted again.
"""

from __future__ import annotations

from time import monotonic_ns
from typing import TYPE_CHECKING

from gputop.publisher.entries import COUNT, OWN_COST, OWN_TIME, REQUEST, TICK, TURN, WORKED
from gputop.publisher.pace import Pace

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
"""Entries below which reading waits for more. These readings are what a fast loop's slowest steps feel; longer ones,
though in fewer steps (160 and 320 entries), came to more at the 99th percentile."""

READ_FROM = 1024
"""Entries that the training thread reads in any case."""

COST_EVERY = 16
"""Looks between two times that the cost of a mark is told."""

SLOW_NS = 20_000_000
"""After a step of which only the time was noted and which took longer, the next one is told in detail."""

STEADY = 4
"""Plain steps in a row before some of a pass are not told in detail."""


class Decided:
    """What is remembered from one decision to the next: of the looks at the notes, the steps and the cost so far."""

    __slots__ = ("costed", "due", "looked_at", "looks", "pace", "spent_ns", "stepped", "turns")

    def __init__(self) -> None:
        self.pace = Pace()
        self.due = False
        """The next step is told in detail in any case."""
        self.looks = self.turns = 0
        self.looked_at = 0
        """When the notes were looked at last, ns."""
        self.stepped = self.costed = 0
        """Steps, and steps told in detail, by then."""
        self.spent_ns = 0
        """What telling steps with device marks has taken since then."""


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
    return True


def ask_counted(publisher: Publisher, asked: int) -> None:
    """The step so far was only counted, and the batch of another such one is asked for."""
    publisher.asked_at = asked
    publisher.skip -= 1
    publisher.asking = True


def take_counted(publisher: Publisher, source: Source | None, asked: int) -> None:
    """That batch is here."""
    publisher.asking = False
    publisher.put((TICK, source, asked))
    if (publisher.skip + 1) % LOOK_EVERY == 0:
        look(publisher, asked)


def miss_counted(publisher: Publisher, source: Source | None, asked: int) -> None:
    """No such batch came: how the pass ends is noted."""
    in_detail(publisher, asked)
    publisher.put((REQUEST, source, asked))


def in_detail(publisher: Publisher, now: int) -> None:
    """Note everything again from `now` on."""
    if not publisher.skip:
        return
    publisher.skip = 0
    publisher.decided.due = True
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
    publisher.decided.turns += 1
    if publisher.decided.turns % LOOK_EVERY == 0:
        look(publisher, now)


def look(publisher: Publisher, arrived: int) -> None:
    """Every LOOK_EVERY batches, one of which `arrived` just now: read the notes? What does all this cost?"""
    try:
        decided, loop = publisher.decided, publisher.tape.ledger.loop
        pace = decided.pace
        now = monotonic_ns()
        if not publisher.skip:
            pace.noted(now - arrived)
        took, decided.looked_at = now - decided.looked_at, now
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
