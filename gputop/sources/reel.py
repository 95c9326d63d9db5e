"""The reel: a recording's records in order of arrival, handed out by the moment at which each was over."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from gputop.recording.past import Past
from gputop.recording.reader import Recording
from gputop.recording.timeindex import Chunk
from gputop.records import AnyRecord, Step, end_of

S = 1_000_000_000

LATE_NS = 5 * S
"""Records may come this much out of order: so far ahead is read before a moment is complete."""

READ = 500
"""Numbers read at a time: some milliseconds."""

RECENT = 256
DOUBT = 16
"""Of the last RECENT records read, as many as DOUBT may bear a time far ahead without being believed."""

SCANNED = 4_000
"""Numbers read ahead in search of a step, before steps alone are asked for."""


class Reel:
    """Reads on from a number. `seq` is the last number read; reading errors are the recording's (Unreadable)."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self.seq = 0
        self.last_seq = recording.last_seq()
        self._past = (-1, 0)
        self._waiting: list[tuple[int, int, AnyRecord]] = []
        self._ends: deque[int] = deque(maxlen=RECENT)
        self._frontier = -1
        self._taken: list[tuple[int, int]] = []

    def wind(self, past: Past) -> None:
        """Stand at a moment: what counts as past there is not handed out again."""
        self.seq, self._past, self._frontier = past.seq, (past.t_ns, past.upto_seq), -1
        self._waiting.clear()
        self._ends.clear()
        self._taken.clear()

    def look_for_more(self) -> bool:
        """Whether the file holds more than it did."""
        before, self.last_seq = self.last_seq, self._recording.last_seq()
        return self.last_seq > before

    def upto(self, t_ns: int) -> list[AnyRecord]:
        """The records not yet handed out that were over by `t_ns`, in order of arrival.

        Where recording began the publishers' backlogs came one after the other: a transaction that tells of a moment is
        read whole, however far ahead of it others came first.
        """
        needed, wide = self._recording.chunks_of(t_ns)
        self._take(wide, t_ns)
        while (self._frontier < t_ns + LATE_NS or self.seq < needed) and self._read():
            pass
        due: list[tuple[int, AnyRecord]] = []
        while self._waiting and self._waiting[0][0] <= t_ns:
            _, seq, record = heappop(self._waiting)
            due.append((seq, record))
        due.sort(key=lambda pair: pair[0])
        return [record for _, record in due]

    def next_ns(self) -> int | None:
        """When the next record is over that was not handed out, as far as is read ahead; None where there is none."""
        while not self._waiting and self._read():
            pass
        return self._waiting[0][0] if self._waiting else None

    def exhausted(self) -> bool:
        """Whether everything that the file holds has been read."""
        return self.seq >= self.last_seq

    def next_step(self, wanted: Callable[[Step], bool]) -> Step | None:
        """The first step not handed out yet that is wanted; steps alone are read ahead of what plays."""
        begun = self.seq
        while True:
            ahead = [one for _, _, one in self._waiting if isinstance(one, Step) and wanted(one)]
            if ahead:
                return min(ahead, key=end_of)
            if self.seq - begun >= SCANNED or not self._read():
                break
        for _, record in self._recording.numbered(after_seq=self.seq, upto_seq=self.last_seq, types=(Step,)):
            if isinstance(record, Step) and wanted(record):
                return record
        return None

    def _take(self, wide: Sequence[Chunk], t_ns: int) -> None:
        """Read those transactions out of turn that bring what was long past and begin by `t_ns`."""
        for one in wide:
            first, last = max(one.first_seq, self.seq + 1), min(one.last_seq, self.last_seq)
            if one.from_ns <= t_ns and first <= last and not any(begin <= first <= end for begin, end in self._taken):
                self._taken.append((first, last))
                self._keep(first - 1, last)

    def _keep(self, after: int, upto: int) -> list[int]:
        """Read numbers; returns when each of their records was over."""
        past_ns, upto_seq = self._past
        ends = []
        for seq, record in self._recording.numbered(after_seq=after, upto_seq=upto):
            ends.append(end := end_of(record))
            if end > past_ns or seq > upto_seq:
                heappush(self._waiting, (end, seq, record))
        return ends

    def _read(self) -> bool:
        """Read some numbers; False when there are none."""
        if self.exhausted():
            return False
        upto = min(self.last_seq, self.seq + READ)
        self._taken = [(first, last) for first, last in self._taken if last > self.seq]
        for first, last in self._taken:
            if first <= self.seq + 1 <= last:
                self.seq = last
                return True
            if self.seq < first <= upto:
                upto = first - 1
        self._ends.extend(self._keep(self.seq, upto))
        self.seq = upto
        if len(self._ends) > DOUBT:
            self._frontier = sorted(self._ends)[-DOUBT]
        return True
