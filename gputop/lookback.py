"""Looking back at what is watched live: the view stands at an earlier moment while everything is collected on."""

from __future__ import annotations

from collections.abc import Callable

from gputop.earlier import earlier, earliest
from gputop.recording.past import Past
from gputop.sources import Position
from gputop.tracks import RunTrack
from gputop.watching import Watch


class LookBack:
    """A transport over a watch's own past. It costs nothing while nobody looks back."""

    replay = False

    def __init__(self, watch: Watch, clock: Callable[[], int]) -> None:
        self._watch = watch
        self._clock = clock
        self._at: int | None = None
        self._then: Watch | None = None

    def then(self) -> Watch | None:
        """The watch as it was at the moment looked at; None where that is now."""
        if self._at is None:
            return None
        if self._then is None:
            now = self._watch
            found = earlier(now, self._at)
            self._then = Watch(
                now.source, column_ns=now.timeline.column_ns, hostname=now.hostname, simulated=now.simulated
            )
            self._then.started_ns = now.started_ns
            self._then.restore(found.past, resumed=True, told=found.told)
        elif self._then.unjudged():
            self._then.tick(self._at)
        return self._then

    def position(self) -> Position:
        """Where the view stands."""
        now = self._clock()
        return Position(
            from_ns=earliest(self._watch.timeline, now),
            to_ns=now,
            at_ns=now if self._at is None else self._at,
            live=self._at is None,
            playing=self._at is None,
        )

    def play(self) -> None:
        """Back to now."""
        self._at = self._then = None

    def pause(self) -> None:
        """Stand at this moment."""
        if self._at is None:
            self._at = self._clock()

    def seek(self, t_ns: int) -> None:
        """Stand at a moment; one that has not come yet is now, and live."""
        now = self._clock()
        self._then = None
        self._at = None if t_ns >= now else max(t_ns, earliest(self._watch.timeline, now))

    def to_end(self) -> None:
        """Back to now."""
        self.play()

    def faster(self) -> None:
        """Now passes at its own speed."""

    def slower(self) -> None:
        """Now passes at its own speed."""

    def toggle_skip_idle(self) -> None:
        """Nothing is passed over: now is all there is ahead."""

    def step_start(self, n: int, run_id: str | None) -> int | None:
        """When step `n` of a run began, or the first one held after it."""
        track = self._track(run_id)
        return next((step.t for step in track.steps if step.n >= n), None) if track is not None else None

    def meant(self) -> frozenset[str]:
        """None: no recording says what it was made for."""
        return frozenset()

    def step_end(self, direction: int, run_id: str | None) -> int | None:
        """When the next (1) or the previous (-1) train step of a run was over, seen from here."""
        track = self._track(run_id)
        if track is None:
            return None
        at = self.position().at_ns
        ends = [step.t + step.dur_ns for step in track.trained(0, self._clock())]
        if direction > 0:
            return min((end for end in ends if end > at), default=None)
        return max((end for end in ends if end < at), default=None)

    def _track(self, run_id: str | None) -> RunTrack | None:
        runs = self._watch.timeline.runs
        return runs.get(run_id) if run_id is not None else next(iter(runs.values()), None)

    def changes(self, run_id: str | None) -> tuple[tuple[int, str], ...]:
        """When each cause began to hold for a run."""
        track = self._track(run_id)
        judge = self._watch.judges.get(track.run.run_id) if track is not None else None
        return tuple((one.from_ns, one.cause) for one in judge.segments) if judge is not None else ()

    def marks(self) -> tuple[tuple[int, str], ...]:
        """Moments of events and their kinds, in time order."""
        return tuple(sorted((one.t, one.kind) for one in self._watch.timeline.events))

    def moment(self, t_ns: int) -> Past | None:
        """What is judged already is not judged anew."""
        return None
