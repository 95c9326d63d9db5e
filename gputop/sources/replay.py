"""The replay: a recording as a source, under a clock that can be stopped, set and sped up."""

from __future__ import annotations

import sqlite3
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable

import msgspec

from gputop.recording.errors import Unreadable
from gputop.recording.kinds import ran_backward
from gputop.recording.past import Past
from gputop.recording.reader import Recording
from gputop.records import AnyRecord, Event, Step, end_of
from gputop.sources import Position, Transport, steps
from gputop.sources.reel import Reel
from gputop.sources.tempo import Tempo

S = 1_000_000_000

HISTORY_COLUMNS = 300
"""Columns of history before a moment that is jumped to: as many as a screen shows."""

INCREMENT_NS = S
"""At most so much of the trace comes at once while it keeps up, so that it is judged as often as it was live."""

BEHIND_NS = 10 * S
BEHIND_S = 1.5
"""This far behind the clock, in the trace and in real time, the stretch between is left out instead of caught up."""

IDLE_NS = 10 * S
"""A stretch without a step of any run, longer than this, is idle."""

LEAD_NS = S
"""Of an idle stretch that is passed over, the end is shown."""

UNSAID_NS = 10 * S
"""A recorder that met a run later than this after its first step had nothing said of it before."""

LIVE_NS = 5 * S
"""So close to the end of a file that is being written, it is live: writers commit once a second."""

LOOK_S = 0.5
"""How often a file that is being written is looked at for more."""

QUIET_S = 3.0
"""When nothing has come for so long, it is asked whether anyone writes the file still."""

MARKS_NS = 5 * S
"""How old the list of marks may be while the file grows."""

MARKS = (
    "epoch", "eval", "checkpoint", "marker", "recompile", "oom", "error", "exit", "lost_process", "clock", "gap", "xid",
)  # fmt: skip
"""Kinds of events that are marks on the axis: what a person looks for."""


class ReplaySource:
    """A recording, played. `done_at_end`: it runs dry at its end, else it can be gone back from there."""

    replay = True

    def __init__(
        self,
        recording: Recording,
        *,
        speed: float = 1.0,
        start_ns: int | None = None,
        at_end: bool = False,
        done_at_end: bool = False,
        monotonic: Callable[[], int] = time.monotonic_ns,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Open at the beginning, at `start_ns` or at the end. Raises Unreadable. `wait` waits for seconds or a wake."""
        info = recording.info()
        self.name = recording.path.name or "recording"
        self.simulated = info.simulated
        self.recording = recording
        self._from, self._end = info.from_ns, max(info.from_ns, info.to_ns)
        self._spans = {one.run.run_id: one for one in info.runs}
        self._written = info.being_written
        self._done_at_end = done_at_end
        self._reel = Reel(recording)
        self._monotonic = monotonic
        self._woken = threading.Event()
        self._wait = wait if wait is not None else self._woken.wait
        self._tempo = Tempo(self._from, speed, monotonic)
        self._at = self._from
        self._jump: int | None = None
        self._skip_idle = False
        self._next: Step | None = None
        self._backward: dict[str, set[int | None]] = {}
        self._last_step = self._from
        self._looked = self._came = monotonic()
        self._marked: tuple[int, int, list[Event]] | None = None
        self._faults: dict[str, None] = {}
        self._closed = False
        self.seek(self._end if at_end else self._from if start_ns is None else start_ns)

    def clock(self) -> int:
        """The moment it stands at."""
        return self._at

    def poll(self, timeout_s: float) -> list[AnyRecord]:
        """The records up to where the clock has come, at most INCREMENT_NS of them while it keeps up."""
        if self._closed or self._jump is not None:
            return []
        try:
            return self._advance(timeout_s)
        except (Unreadable, sqlite3.Error) as error:
            self._broken(error)
            return []

    def _advance(self, timeout_s: float) -> list[AnyRecord]:
        self._look_for_more()
        if not self._tempo.playing or self._at >= self._end:
            self._tempo.set(self._at)
            self._rest(timeout_s)
            return []
        wanted = min(INCREMENT_NS, int(timeout_s * self._tempo.speed * S), self._end - self._at)
        if (short := wanted - (self._tempo.goal_ns() - self._at)) > 0:
            self._rest(self._tempo.seconds(short))
        goal = max(self._at, min(self._tempo.goal_ns(), self._end))
        if self._skip_idle and (begins := self._idle_until()) is not None:
            self.seek(begins)
        elif goal - self._at > max(BEHIND_NS, BEHIND_S * S * self._tempo.speed):
            self.seek(goal)
        if self._jump is not None:
            return []
        upto = min(goal, self._at + max(INCREMENT_NS, (goal - self._at) // 2))
        records = self._reel.upto(upto)
        self._at = upto
        self._follow(records)
        return records

    def _idle_until(self) -> int | None:
        """Where to go on from when nothing trains here: shortly before the next step begins; None where it goes on."""
        if self._at - self._last_step < LEAD_NS:
            return None
        if self._next is None or end_of(self._next) <= self._at:
            at = self._at
            self._next = self._reel.next_step(lambda step: end_of(step) > at)
        begins = self._end if self._next is None else min(self._next.t - LEAD_NS, self._end)
        return begins if begins - self._last_step > IDLE_NS and begins > self._at else None

    def _look_for_more(self) -> None:
        """While the file is being written: whether it has grown, and whether it is written still."""
        now = self._monotonic()
        if not self._written or now - self._looked < LOOK_S * S:
            return
        self._looked = now
        if self._reel.look_for_more():
            self._came = now
        elif now - self._came < QUIET_S * S:
            return
        self._came = now
        info = self.recording.info()
        self._written, self._end = info.being_written, max(self._end, info.to_ns)
        self._spans = {one.run.run_id: one for one in info.runs}
        self._next = None

    def _rest(self, seconds: float) -> None:
        self._wait(seconds)
        self._woken.clear()

    def wake(self) -> None:
        """Make a poll that waits return. Any thread may call this."""
        self._woken.set()

    def jumped(self, column_ns: int) -> Past | None:
        """What is known at the moment jumped to since this was asked last."""
        if self._jump is None or self._closed:
            return None
        t_ns, self._jump = self._jump, None
        try:
            past = self.recording.at(t_ns, column_ns=column_ns, columns=HISTORY_COLUMNS)
            past = msgspec.structs.replace(past, records=(*self._events_before(past), *past.records))
        except (Unreadable, sqlite3.Error) as error:
            self._faults[str(error)] = None
            self._tempo.set(self._at)
            return None
        self._reel.wind(past)
        self._tempo.set(t_ns)
        self._at, self._next = t_ns, None
        self._backward = {run_id: set(run.backward_loaders) for run_id, run in past.runs.items()}
        self._last_step = max([self._from, *(run.last_ns or 0 for run in past.runs.values())])
        self._follow(past.records)
        return past

    def _follow(self, records: Iterable[AnyRecord]) -> None:
        """Remember when the last step was over, and which loaders train."""
        for record in records:
            if isinstance(record, Step):
                self._last_step = max(self._last_step, end_of(record))
                if ran_backward(record):
                    self._backward.setdefault(record.run_id, set()).add(record.loader_id)

    def _events_before(self, past: Past) -> list[Event]:
        """The marks on the histories' axis that the past does not hold one by one."""
        events = self._events()
        first = past.t_ns - HISTORY_COLUMNS * past.column_ns
        held = {(one.t, one.kind, one.run_id) for one in past.records if isinstance(one, Event)}
        low, high = (bisect_left(events, t, key=lambda one: one.t) for t in (first, past.t_ns + 1))
        return [one for one in events[low:high] if (one.t, one.kind, one.run_id) not in held]

    def _events(self) -> list[Event]:
        """The marks of the whole recording in time order, as of some seconds ago."""
        if self._marked is None or (
            self._reel.last_seq > self._marked[0] and self._looked - self._marked[1] > MARKS_NS
        ):
            found = sorted(self.recording.events(MARKS), key=lambda one: one.t)
            self._marked = (self._reel.last_seq, self._looked, found)
        return self._marked[2]

    def transport(self) -> Transport:
        """What moves it in time."""
        return self

    def position(self) -> Position:
        """Where it stands now."""
        at = self._at if self._jump is None else self._jump
        live = self._written and self._tempo.playing and self._end - at <= LIVE_NS
        at_end = live or at >= self._end
        return Position(
            from_ns=self._from,
            to_ns=self._end,
            at_ns=at,
            live=live,
            playing=self._tempo.playing and (live or not at_end),
            speed=self._tempo.speed,
            at_end=at_end,
            skip_idle=self._skip_idle,
        )

    def play(self) -> None:
        """Move on from here; from the end of a recording that nobody writes, from its beginning."""
        if self._at >= self._end and not self._written:
            self.seek(self._from)
        self._tempo.play(True)

    def pause(self) -> None:
        """Stand still."""
        self._tempo.play(False)

    def seek(self, t_ns: int) -> None:
        """Go to a moment, or the nearest there is."""
        self._jump = min(max(t_ns, self._from), self._end)

    def to_end(self) -> None:
        """Go to the end; where the file is being written, follow it."""
        self.seek(self._end)
        self._tempo.play(self._written or self._tempo.playing)

    def faster(self) -> None:
        """Take the next higher speed."""
        self._tempo.faster()

    def slower(self) -> None:
        """Take the next lower speed."""
        self._tempo.slower()

    def toggle_skip_idle(self) -> None:
        """Pass over stretches without a step while playing, or don't."""
        self._skip_idle = not self._skip_idle

    def step_start(self, n: int, run_id: str | None) -> int | None:
        """When step `n` of a run began, or the first one held after it."""
        step = steps.numbered_from(self.recording, self._reel.last_seq, n, run_id)
        return step.t if step is not None else None

    def step_end(self, direction: int, run_id: str | None) -> int | None:
        """When the next (1) or the previous (-1) train step of a run is over, seen from here."""
        at = self.position().at_ns
        if direction > 0:
            step = self._reel.next_step(lambda one: end_of(one) > at and steps.trains(one, run_id, self._backward))
        else:
            step = steps.before(self.recording, (self._from, at), run_id, self._backward)
        return end_of(step) if step is not None else None

    def changes(self, run_id: str | None) -> tuple[tuple[int, str], ...]:
        """When each recorded cause began to hold for a run; `unknown` before, where it trained already."""
        found = self.recording.changes()
        run_id = next(iter(found), "") if run_id is None else run_id
        said, span = tuple(found.get(run_id, ())), self._spans.get(run_id)
        if said and span is not None and said[0][0] - span.first_ns > UNSAID_NS:
            return ((span.first_ns, "unknown"), *said)
        return said

    def meant(self) -> frozenset[str]:
        """The runs that the recording was made for."""
        return frozenset(run_id for run_id, span in self._spans.items() if span.meant)

    def marks(self) -> tuple[tuple[int, str], ...]:
        """Moments of events and their kinds, in time order."""
        return tuple((one.t, one.kind) for one in self._events())

    def moment(self, t_ns: int) -> Past | None:
        """What is known at a moment, enough to judge it."""
        return self.recording.at(t_ns, columns=1)

    def _broken(self, error: Exception) -> None:
        """Reading failed: here is the end of what can be read, unless the file is only locked for a moment."""
        if "locked" in str(error):
            return
        self._faults[str(error)] = None
        self._end, self._written = self._at, False

    def warnings(self) -> list[str]:
        """What went wrong so far."""
        return [*dict.fromkeys((*self.recording.warnings, *self._faults))]

    def waiting(self) -> str | None:
        """What is awaited."""
        return "no training at this moment of the recording"

    def done(self) -> bool:
        """Whether nothing will ever come again: at the end, where one does not come back from there."""
        at_end = self._jump is None and self._at >= self._end and not self._written
        return self._closed or (self._done_at_end and at_end)

    def close(self) -> None:
        """Let go of the file."""
        if not self._closed:
            self._closed = True
            self.recording.close()
