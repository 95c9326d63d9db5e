"""The spool: records that wait to be written, bounded, from the thread that has them to the one that writes."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

import msgspec

from gputop.records import Event, Loader, Model, Record, Run, Step, supersede

MAX_RECORDS = 400_000
MAX_BYTES = 96 * 1024 * 1024
"""What may wait in memory, by a generous estimate: 20 s at 20,000 steps a second, an hour at 100."""

STEP_BYTES = 900
OTHER_BYTES = 600
ITEM_BYTES = 120
"""About what a record takes in memory, and an entry of one of its lists."""

MAX_ENDED = 64
"""Runs that have ended and are still remembered."""

Key = tuple[type[Record], str, int]


class Lost(msgspec.Struct):
    """Records of a run (None: of the machine) that were given up: how many, and when the first and last were."""

    run_id: str | None = None
    count: int = 0
    from_ns: int = 0
    to_ns: int = 0

    def note(self, record: Record) -> None:
        """One more."""
        self.from_ns = min(self.from_ns, record.t) if self.count else record.t
        self.to_ns = max(self.to_ns, record.t) if self.count else record.t
        self.count += 1


class Spool:
    """Records in order of arrival. When there is no room the oldest give way, and are counted."""

    def __init__(self, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES) -> None:
        self.dropped = 0
        self._max_records = max_records
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: deque[Record] = deque()
        self._bytes = 0
        self._lost: dict[str | None, Lost] = {}
        self._known: dict[Key, Record] = {}
        self._ended: deque[str] = deque()

    def put(self, records: Sequence[Record]) -> None:
        """Take records. Never waits for more than another `put` or `take`."""
        with self._lock:
            for record in records:
                if type(record) is not Step:
                    self._remember(record)
                self._bytes += weight(record)
            self._waiting.extend(records)
            self._make_room()

    def give_back(self, records: Sequence[Record]) -> None:
        """Put what was taken but not written back in front."""
        with self._lock:
            self._waiting.extendleft(reversed(records))
            self._bytes += sum(map(weight, records))
            self._make_room()

    def give_up(self, records: Sequence[Record]) -> None:
        """Count what was taken and can't be written any more."""
        with self._lock:
            for record in records:
                self._lose(record)
            self.dropped += len(records)

    def take(self, limit: int) -> tuple[list[Lost], list[Record]]:
        """What was lost before these records, by run, and the next records, at most `limit`."""
        with self._lock:
            lost, self._lost = [*self._lost.values()], {}
            taken = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
            self._bytes -= sum(map(weight, taken))
            return lost, taken

    def known(self) -> list[Record]:
        """The latest of what describes each run: its `run`, its loaders and its model, runs first."""
        with self._lock:
            return sorted(self._known.values(), key=lambda record: not isinstance(record, Run))

    def __len__(self) -> int:
        return len(self._waiting)

    def _make_room(self) -> None:
        while len(self._waiting) > self._max_records or (self._bytes > self._max_bytes and self._waiting):
            record = self._waiting.popleft()
            self._bytes -= weight(record)
            self._lose(record)
            self.dropped += 1

    def _lose(self, record: Record) -> None:
        run_id = getattr(record, "run_id", None)
        if run_id not in self._lost:
            self._lost[run_id] = Lost(run_id)
        self._lost[run_id].note(record)

    def _remember(self, record: Record) -> None:
        if isinstance(record, Run):
            old = self._known.get((Run, record.run_id, 0))
            self._known[Run, record.run_id, 0] = supersede(old, record) if isinstance(old, Run) else record
        elif isinstance(record, Loader):
            self._known[Loader, record.run_id, record.loader_id] = record
        elif isinstance(record, Model):
            self._known[Model, record.run_id, 0] = record
        elif isinstance(record, Event) and record.kind in ("exit", "lost_process") and record.run_id is not None:
            self._ended.append(record.run_id)
            if len(self._ended) > MAX_ENDED:
                self._forget(self._ended.popleft())

    def _forget(self, run_id: str) -> None:
        for key in [key for key in self._known if key[1] == run_id]:
            del self._known[key]


def weight(record: Record) -> int:
    """About how many bytes of memory a record takes."""
    if type(record) is Step:
        return STEP_BYTES
    lists = (getattr(record, name) for name in record.__struct_fields__)
    return OTHER_BYTES + ITEM_BYTES * sum(len(value) for value in lists if isinstance(value, (list, dict)))
