"""A recording told in lines: each change of a verdict, judged by today's rules, as fast as it can be read."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from gputop.figures import counted
from gputop.records import AnyRecord, Verdict
from gputop.report.text import run_title, verdict_line
from gputop.sources.reel import Reel
from gputop.tracks import S
from gputop.watching import Watch

if TYPE_CHECKING:
    from gputop.recording.past import Info
    from gputop.recording.reader import Recording

MAX_JUDGEMENTS = 20_000
"""A recording is judged once a second of its time, as it was live; a very long one this often, all ranks together."""

PATIENCE = 60
"""Judgements in a stretch without any record; what follows of the stretch is the same."""

SAYS_NOTHING = ("warmup", "idle", "unknown")
"""Causes that neither contradict another nor are contradicted."""


def lines(
    recording: Recording,
    info: Info,
    progress: Callable[[float], None] = lambda share: None,
    from_ns: int | None = None,
) -> Iterator[str]:
    """A line whenever a verdict changes or a run ends, with the local time; a date before the first of each day.

    With `from_ns` what is in force then comes first, and only what follows is told.
    """
    every = max(S, (info.to_ns - info.from_ns) * max(1, len(info.runs)) // MAX_JUDGEMENTS)
    telling = _Telling(recording, simulated=info.simulated, from_ns=from_ns or info.from_ns)
    reel, due, looks = Reel(recording), info.from_ns + every, 0
    while due < info.to_ns:
        found = telling.take(reel.upto(due))
        yield from telling.look(due)
        progress((due - info.from_ns) / max(1, info.to_ns - info.from_ns))
        looks = 0 if found else looks + 1
        due += every
        if looks >= PATIENCE and (following := reel.next_ns()) is not None:
            due = max(due, following)
    telling.take(reel.upto(2**62))
    yield from telling.look(info.to_ns)


class _Telling:
    """What was told so far, so that each thing is said once."""

    def __init__(self, recording: Recording, *, simulated: bool, from_ns: int) -> None:
        self.watch = Watch(str(recording.path), simulated=simulated)
        self._mark = " [simulated GPU]" if simulated else ""
        self._recording = recording
        self._from_ns = from_ns
        self._told: dict[str, tuple[str, bool]] = {}
        self._ended: set[str] = set()
        self._day = ""

    def take(self, records: Sequence[AnyRecord]) -> int:
        """Take in what was measured, not what was said of it then; returns how many records that is."""
        measured = [record for record in records if not isinstance(record, Verdict)]
        for record in measured:
            self.watch.add(record)
        return len(measured)

    def look(self, now_ns: int) -> Iterator[str]:
        """What is new at `now_ns`."""
        for run_id, verdict in self.watch.tick(now_ns).items():
            track = self.watch.timeline.runs[run_id]
            if now_ns < self._from_ns:
                if track.ended is not None:
                    self._told[run_id] = verdict.cause, bool(verdict.tentative)
                    self._ended.add(run_id)
                continue
            title = f"{run_title(track.run)}{self._mark}"
            if self._told.get(run_id) != (verdict.cause, bool(verdict.tentative)):
                self._told[run_id] = verdict.cause, bool(verdict.tentative)
                yield from self._at(now_ns, f"{title}: {verdict_line(verdict)}{self._said(verdict, now_ns)}")
            if track.ended is not None and run_id not in self._ended:
                self._ended.add(run_id)
                words = "ended" if track.ended == "ended" else "its process vanished without a word"
                yield from self._at(now_ns, f"{title}: {words} after {counted(track.train_steps, 'step')}")

    def _at(self, now_ns: int, text: str) -> Iterator[str]:
        local = time.localtime(now_ns / 1e9)
        if self._day != (day := time.strftime("%Y-%m-%d", local)):
            self._day = day
            yield day
        yield f"{time.strftime('%H:%M:%S', local)} {text}"

    def _said(self, verdict: Verdict, now_ns: int) -> str:
        """What the recording says was said at that moment, where it was something else."""
        changes = self._recording.changes().get(verdict.run_id, [])
        at = bisect_right(changes, now_ns, key=lambda change: change[0]) if changes else 0
        said = changes[at - 1][1] if at else verdict.cause
        differs = said != verdict.cause and not {said, verdict.cause} & set(SAYS_NOTHING) and not verdict.tentative
        return f" (said then: {said})" if differs else ""
