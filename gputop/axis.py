"""The time axis: where a transport stands, with the verdicts and marks over its whole span, and where to jump."""

from __future__ import annotations

import sqlite3
from collections import Counter

import msgspec

from gputop.causemap import CauseMap
from gputop.recording.errors import Unreadable
from gputop.recording.past import Past, RunPast
from gputop.sources import Transport
from gputop.view import Cursor
from gputop.watching import segments_of

MOST_MARKS = 200
"""Marks in a cursor: a map line has no room for more."""

NEAR_NS = 1_000_000_000
"""While it plays, a moment left behind less than this ago is still the one it stands at."""

PAUSE = 2
"""After a slice of work so many times its length is left for everything else."""


class Axis:
    """One transport's axis. `run_id` is the run whose steps and verdicts are meant; None: none is known yet."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.run_id: str | None = None
        self._maps: dict[str, CauseMap] = {}
        self._rest_until = 0

    def cursor(self) -> Cursor:
        """Where it stands."""
        where = self.transport.position()
        changes, upto_ns = self._changes(where.to_ns)
        return Cursor(
            from_ns=where.from_ns,
            to_ns=where.to_ns,
            at_ns=where.at_ns,
            live=where.live,
            playing=where.playing,
            speed=where.speed,
            replay=self.transport.replay,
            at_end=where.at_end,
            skip_idle=where.skip_idle,
            causes=segments_of(changes, upto_ns),
            marks=thin(self.transport.marks()),
            meant=self.transport.meant(),
        )

    def _changes(self, to_ns: int) -> tuple[tuple[tuple[int, str], ...], int]:
        """When each cause began to hold, and up to when that is known."""
        changes = self.transport.changes(self.run_id)
        judged = self._maps.get(self.run_id or "")
        if changes or judged is None:
            return changes, to_ns
        return judged.changes, judged.judged_ns

    def next_moment(self, direction: int) -> int | None:
        """The next (1) or the previous (-1) change of the verdict or mark; None where there is none."""
        where = self.transport.position()
        changes, _ = self._changes(where.to_ns)
        moments = {t for t, _ in changes} | {t for t, _ in self.transport.marks()}
        if direction > 0:
            return min((t for t in moments if t > where.at_ns), default=None)
        before = where.at_ns - (NEAR_NS if where.playing else 0)
        return max((t for t in moments if t < before), default=None)

    def explained(self, past: Past) -> Past:
        """A past in which runs' verdicts before are as they were judged, as far as they were, where none were
        recorded."""
        runs = dict(past.runs)
        for run_id, judged in self._maps.items():
            mine = runs.get(run_id, RunPast())
            before = tuple(change for change in judged.changes if change[0] <= past.t_ns)
            if before and not mine.changes:
                runs[run_id] = msgspec.structs.replace(mine, changes=before, known_ns=judged.judged_ns)
        return msgspec.structs.replace(past, runs=runs)

    def work(self, began_ns: int) -> bool:
        """Whether a slice of the map of causes is due: none was recorded, and the last slice is some time ago."""
        if not self.transport.replay or self.run_id is None or began_ns < self._rest_until:
            return False
        judged = self._maps.get(self.run_id)
        if judged is None:
            judged = self._maps[self.run_id] = CauseMap(self.transport, self.run_id)
        if judged.done() or self.transport.changes(self.run_id):
            return False
        try:
            judged.judge_one()
        except (Unreadable, sqlite3.Error):
            judged.give_up()
        return True

    def rest(self, began_ns: int, ended_ns: int) -> None:
        """Leave time for everything else after a slice of work."""
        self._rest_until = ended_ns + PAUSE * (ended_ns - began_ns)


def thin(marks: tuple[tuple[int, str], ...]) -> tuple[tuple[int, str], ...]:
    """At most MOST_MARKS marks: the frequent kinds give way, evenly, so that the rare ones stay."""
    if len(marks) <= MOST_MARKS:
        return marks
    counts = Counter(kind for _, kind in marks)
    share: dict[str, int] = {}
    room, kinds = MOST_MARKS, len(counts)
    for kind, count in sorted(counts.items(), key=lambda item: item[1]):
        share[kind] = min(count, room // kinds)
        room, kinds = room - share[kind], kinds - 1
    seen: Counter[str] = Counter()
    out = []
    for t, kind in marks:
        before, after = (n * share[kind] // counts[kind] for n in (seen[kind], seen[kind] + 1))
        seen[kind] += 1
        if after > before:
            out.append((t, kind))
    return tuple(out)
