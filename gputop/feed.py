"""The feed: one plain thread that polls a source, fills the watch and judges; whoever draws takes its latest view."""

from __future__ import annotations

import threading

import msgspec

from gputop.recording.recorder import Recorder
from gputop.sources import Source
from gputop.tracks import S
from gputop.view import View
from gputop.watching import Watch

POLL_S = 0.1
JUDGE_NS = S
LEAVE_S = 0.25

MAX_FAULTS = 10
"""Faults in a row after which the feed gives up: one bad record or moment is survived, a broken source is not."""


class Feed:
    """Runs a source into a watch on a thread of its own. `view()` never blocks."""

    def __init__(
        self,
        source: Source,
        *,
        column_ns: int = 2 * S,
        hostname: str = "",
        refresh_s: float = 1.0,
    ) -> None:
        self.source = source
        self.watch = Watch(source.name, column_ns=column_ns, hostname=hostname, simulated=source.simulated)
        self.fault: BaseException | None = None
        self._troubles: dict[str, None] = {}
        self._clock = source.clock
        self._refresh_ns = int(refresh_s * S)
        self._stop = threading.Event()
        self._fresh = threading.Condition()
        self._view = self.watch.view(source.clock(), waiting="starting")
        self._thread = threading.Thread(target=self._run, name="gputop-feed", daemon=True)

    def start(self) -> Feed:
        """Begin to watch."""
        self._thread.start()
        return self

    def view(self) -> View:
        """The latest view."""
        return self._view

    def wait(self, after: View | None, timeout_s: float) -> View:
        """The next view that is not `after`, or the latest when none came in time or the feed has ended."""
        with self._fresh:
            self._fresh.wait_for(lambda: self._view is not after or not self._thread.is_alive(), timeout_s)
        return self._view

    def ended(self) -> bool:
        """Whether the source has run dry (or failed) and everything it gave is in the view."""
        return not self._thread.is_alive()

    def pause(self) -> None:
        """Stand still at the moment shown; what is live is collected on."""

    def play(self) -> None:
        """Move on from the moment shown."""

    def toggle(self) -> None:
        """Pause what moves, play what stands."""

    def seek(self, t_ns: int) -> None:
        """Go to a moment, or the nearest there is. A replay that plays, plays on from there; a live view stands."""

    def seek_by(self, delta_ns: int) -> None:
        """Go on (or back) by so much time."""

    def seek_step(self, n: int) -> None:
        """Go to where step `n` of the first run began."""

    def seek_pct(self, pct: float) -> None:
        """Go to a share (0-100) of the span."""

    def step(self, direction: int) -> None:
        """Pause, and go to the end of the next (1) or the previous (-1) train step."""

    def jump(self, direction: int) -> None:
        """Go to the next (1) or the previous (-1) change of the verdict or event mark."""

    def faster(self) -> None:
        """Replay at the next higher speed."""

    def slower(self) -> None:
        """Replay at the next lower speed."""

    def to_end(self) -> None:
        """Go to the end: of what is live, now."""

    def toggle_skip_idle(self) -> None:
        """Pass over stretches without a step while playing, or don't."""

    def record(self, recorder: Recorder) -> None:
        """Hand every record that comes, and what is concluded from it, to a recorder that was started."""

    def stop_recording(self) -> None:
        """End the recording; its file is complete soon after."""

    def close(self) -> None:
        """Stop watching. The feed's own thread lets go of the source; it is given LEAVE_S to do so."""
        self._stop.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(LEAVE_S)

    def _run(self) -> None:
        try:
            self._loop()
        except BaseException as error:
            if not self._stop.is_set():
                self.fault = error
                self._view = msgspec.structs.replace(
                    self._view, source="stopped", warnings=(*self._view.warnings, *self._troubles)
                )
        finally:
            self.source.close()
            with self._fresh:
                self._fresh.notify_all()

    def _loop(self) -> None:
        next_judge = next_view = faults = 0
        while not self._stop.is_set():
            done = self.source.done()
            now = self._clock()
            try:
                for record in self.source.poll(min(POLL_S, self._refresh_ns / S / 2)):
                    self.watch.add(record)
                now = self._clock()
                if now >= next_judge or done or next_judge - now > 2 * JUDGE_NS:
                    next_judge = now + JUDGE_NS
                    self.watch.tick(now)
                faults = 0
            except Exception as error:
                faults += 1
                self._troubles[f"something went wrong inside gputop: {type(error).__name__}: {error}"] = None
                if faults >= MAX_FAULTS:
                    raise
                self._stop.wait(POLL_S)
            if now >= next_view or done or next_view - now > 2 * self._refresh_ns:
                view = self.watch.view(now, (*self.source.warnings(), *self._troubles), self.source.waiting())
                next_view = now + self._refresh_ns
                with self._fresh:
                    self._view = view
                    self._fresh.notify_all()
            if done:
                return
