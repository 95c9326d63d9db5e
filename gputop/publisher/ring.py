"""What a run has said lately: exact records in bounded memory, older steps summed by the second for two minutes.

The training thread only appends to the inbox. Everything else is done by the one thread that sends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice

from gputop.publisher.counting import Sums
from gputop.publisher.segment import Segment
from gputop.records import Event, Fold, Record

Entry = Segment | Sums | Record
"""What the ring holds: steps as the step clock made them (cheaper than their records), or any other record."""

HELD = 3_500
"""Entries kept exactly. A step takes about 0.9 KB, so these take some 3 MB."""

INBOX = 2_000
"""Entries (2 MB) that may wait for the sending thread besides: beyond it the newest is dropped and counted."""

FOLDS_NS = 120_000_000_000
"""How long the sums of older steps are kept."""

EVENTS = 64
"""Moments that outlive the ring."""

S = 1_000_000_000


COUNTED = "counted"
"""Stands for the kind of steps that were only counted: their sums stay apart from those of steps told one by one."""


class Ring:
    """Entries in the order of their sequence numbers: `held[0]` has number `first`."""

    def __init__(self, *, held: int = HELD, inbox: int = INBOX) -> None:
        self.inbox: deque[Entry] = deque()
        self.held: deque[Entry] = deque()
        self.first = 0
        self.dropped = 0
        self.events: deque[Event] = deque(maxlen=EVENTS)
        self._folds: dict[tuple[int, str | None], Sums] = {}
        self._held_limit = held
        self._limit = held + inbox
        self._half = inbox // 2
        self.wake: Callable[[], None] = _nobody
        """Called when the inbox is half full."""

    def put(self, entry: Entry) -> None:
        """Append an entry; drop it when the sending thread has fallen far behind. For any thread."""
        waiting = len(self.inbox)
        if waiting == self._half:
            self.wake()
        if waiting + len(self.held) >= self._limit:
            self.dropped += 1
        else:
            self.inbox.append(entry)

    def make_room(self) -> None:
        """The run ends: what still comes in is bounded by itself."""
        self._limit = 1 << 62

    @property
    def next(self) -> int:
        """The number of the next entry."""
        return self.first + len(self.held)

    def collect(self, limit: int) -> int:
        """Number up to `limit` entries of the inbox; returns how many. Makes room by folding the oldest."""
        taken = 0
        inbox, held = self.inbox, self.held
        while taken < limit and inbox:
            held.append(inbox.popleft())
            taken += 1
        while len(held) > self._held_limit:
            self._fold(held.popleft())
            self.first += 1
        return taken

    def _fold(self, entry: Entry) -> None:
        if isinstance(entry, Segment):
            kind = entry.kind
            key = (entry.start // S, kind)
            sums = self._folds.get(key)
            if sums is None:
                sums = Sums(entry.start, kind)
                self._keep(key, sums)
            sums.add(entry.end - entry.start)
            sums.learn(entry)
        elif isinstance(entry, Sums):
            self._keep((entry.start, COUNTED), entry)
        elif isinstance(entry, Event):
            self.events.append(entry)

    def _keep(self, key: tuple[int, str | None], sums: Sums) -> None:
        self._folds[key] = sums
        for oldest, old in tuple(islice(self._folds.items(), 2)):
            if sums.start - old.start > FOLDS_NS:
                del self._folds[oldest]

    def between(self, start: int, stop: int) -> Iterable[Entry]:
        """The entries numbered from `start` up to `stop`, as far as they are still held."""
        return islice(self.held, max(0, start - self.first), max(0, stop - self.first))

    def folds(self, run_id: str, to_epoch: Callable[[int], int]) -> list[Fold]:
        """The sums of the steps no longer held, oldest first."""
        return [sums.record(run_id, to_epoch(sums.start)) for sums in self._folds.values()]


def _nobody() -> None:
    """No sending thread yet."""
