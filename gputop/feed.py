"""The feed: one plain thread that polls a source, fills the watch and judges; whoever draws takes its latest view."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from gputop.axis import Axis
from gputop.lookback import LookBack
from gputop.sources import Attaches, Profiles, Source, Transport
from gputop.taping import CLOSE_S, Taping
from gputop.tracks import S
from gputop.view import View, run_shown
from gputop.watching import Watch

if TYPE_CHECKING:
    from gputop.recording.recorder import Recorder

POLL_S = 0.1
JUDGE_NS = S
LEAVE_S = 0.25

MAX_FAULTS = 10
"""Faults in a row after which the feed gives up: one bad record or moment is survived, a broken source is not."""


class Feed:
    """Runs a source into a watch on a thread of its own. `view()` never blocks.

    What moves it in time and what records it may be called from any thread; it returns at once and takes effect on the
    feed's own.
    """

    def __init__(
        self,
        source: Source,
        *,
        column_ns: int = 2 * S,
        hostname: str = "",
        refresh_s: float = 1.0,
        monotonic: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.source = source
        transport = source.transport()
        self.watch = Watch(source.name, column_ns=column_ns, hostname=hostname, simulated=source.simulated,
                           awaits=transport is None and not source.simulated)  # fmt: skip
        self.fault: BaseException | None = None
        self._troubles: dict[str, None] = {}
        self._clock, self._monotonic = source.clock, monotonic
        self._column_ns = column_ns
        self._refresh_ns = int(refresh_s * S)
        self._stop = threading.Event()
        self._fresh = threading.Condition()
        self._orders: deque[Callable[[], None]] = deque()
        self._look = LookBack(self.watch, source.clock)
        self._transport: Transport = transport or self._look
        self._axis = Axis(self._transport)
        self._taping = Taping()
        self._next_judge = self._next_view = 0
        self._selected: str | None = None
        self._shown: tuple[Watch, int] | None = None
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

    def select(self, run_id: str | None) -> None:
        """Mean this run by steps and verdicts from now on; None: the first that is shown."""
        self._order(lambda: setattr(self, "_selected", run_id))

    def pause(self) -> None:
        """Stand still at the moment shown; what is live is collected on."""
        self._order(self._transport.pause)

    def play(self) -> None:
        """Move on from the moment shown; what is live, from now."""
        self._order(self._transport.play)

    def toggle(self) -> None:
        """Pause what moves, play what stands."""
        transport = self._transport
        self._order(lambda: transport.pause() if transport.position().playing else transport.play())

    def seek(self, t_ns: int) -> None:
        """Go to a moment, or the nearest there is. A replay that plays, plays on from there; a live view stands."""
        self._order(lambda: self._transport.seek(t_ns))

    def seek_by(self, delta_ns: int) -> None:
        """Go on (or back) by so much time."""
        self._order(lambda: self._transport.seek(self._transport.position().at_ns + delta_ns))

    def seek_step(self, n: int, absent: Callable[[], object] = lambda: None) -> None:
        """Go to where step `n` of the run began. Where there is none, nothing moves and `absent` is called."""

        def go() -> None:
            moment = self._transport.step_start(n, self._axis.run_id)
            if moment is None:
                absent()
            self._go(moment)

        self._order(go)

    def seek_pct(self, pct: float) -> None:
        """Go to a share (0-100) of the span."""

        def go() -> None:
            where = self._transport.position()
            self._transport.seek(where.from_ns + round((where.to_ns - where.from_ns) * pct / 100))

        self._order(go)

    def step(self, direction: int) -> None:
        """Pause, and go to the end of the next (1) or the previous (-1) train step."""

        def go() -> None:
            self._transport.pause()
            self._go(self._transport.step_end(direction, self._axis.run_id))

        self._order(go)

    def jump(self, direction: int) -> None:
        """Go to the next (1) or the previous (-1) change of the verdict or event mark; past the last, to the end."""

        def go() -> None:
            moment = self._axis.next_moment(direction)
            if moment is None and direction > 0:
                self._transport.to_end()
            self._go(moment)

        self._order(go)

    def faster(self) -> None:
        """Replay at the next higher speed."""
        self._order(self._transport.faster)

    def slower(self) -> None:
        """Replay at the next lower speed."""
        self._order(self._transport.slower)

    def to_end(self) -> None:
        """Go to the end: of what is live, now."""
        self._order(self._transport.to_end)

    def toggle_skip_idle(self) -> None:
        """Pass over stretches without a step while playing, or don't."""
        self._order(self._transport.toggle_skip_idle)

    def record(self, recorder: Recorder) -> None:
        """Hand every record that comes, and what is concluded from it, to a recorder that was started."""

        def begin() -> None:
            if self._transport.replay:
                self._taping.dismiss(recorder)
                self._troubles["a replay is not recorded: it is a recording already"] = None
            else:
                self._taping.begin(recorder, self.watch)

        self._order(begin)

    def stop_recording(self) -> None:
        """End the recording; its file is complete soon after."""
        self._order(self._taping.stop)

    def profile(self, steps: int) -> None:
        """Ask the run that is meant to profile its next steps; nothing where there is none, or nobody to ask."""

        def ask() -> None:
            runs = self._view.runs
            run_id = self._selected or (runs[0].run.run_id if runs else None)
            if run_id is not None and isinstance(self.source, Profiles):
                self.source.profile(run_id, steps)

        self._order(ask)

    def attach(self, pid: int, refused: Callable[[str], object] = lambda _: None) -> None:
        """Watch a process that has no publisher, by samples of its stacks. Where that can't be, `refused` is told why
        and what to do, on the feed's own thread."""

        def ask() -> None:
            from gputop.samplers.attach.tool import Refused

            try:
                if not isinstance(self.source, Attaches):
                    raise Refused("only what is live can be attached to")
                self.source.attach(pid, refused)
            except Refused as why:
                refused(str(why))

        self._order(ask)

    def close(self) -> None:
        """Stop watching. The feed's own thread lets go of the source; it is given LEAVE_S to do so, and a recording
        the time it needs for its last words."""
        self._stop.set()
        self.source.wake()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(LEAVE_S + (CLOSE_S if self._taping.active() else 0))

    def _order(self, act: Callable[[], None]) -> None:
        self._orders.append(act)
        self.source.wake()

    def _go(self, t_ns: int | None) -> None:
        if t_ns is not None:
            self._transport.seek(t_ns)

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
            self._taping.close()
            with self._fresh:
                self._fresh.notify_all()

    def _loop(self) -> None:
        faults = 0
        while not self._stop.is_set():
            done = self.source.done()
            try:
                moved = self._turn(done)
                faults = 0
            except Exception as error:
                faults, moved = faults + 1, False
                self._trouble(error)
                if faults >= MAX_FAULTS:
                    raise
                self._stop.wait(POLL_S)
            self._show(done or moved)
            if done:
                return

    def _turn(self, done: bool) -> bool:
        """Do what was asked for, take in what has come and judge when it is time; whether it moved in time."""
        asked = self._obey()
        jumped = self._take(0.0 if asked else min(POLL_S, self._refresh_ns / S / 2))
        now = self._clock()
        if jumped:
            self._next_judge = now + JUDGE_NS
        if now >= self._next_judge or done or self._next_judge - now > 2 * JUDGE_NS or self._unjudged():
            self._next_judge = now + JUDGE_NS
            self.watch.tick(now)
            self._taping.add(self.watch.news)
        return asked or jumped

    def _show(self, at_once: bool) -> None:
        """Put out a view when it is time, and use the time that is left."""
        began = self._monotonic()
        if began >= self._next_view or at_once:
            self._next_view = began + self._refresh_ns
            self._publish()
        if self._axis.work(began):
            self._axis.rest(began, self._monotonic())

    def _obey(self) -> bool:
        """Do what was asked for since the last time; whether that was anything."""
        moved = False
        while self._orders:
            moved = True
            try:
                self._orders.popleft()()
            except Exception as error:
                self._trouble(error)
        return moved

    def _take(self, timeout_s: float) -> bool:
        """Take in what has come; whether that is another moment."""
        records = self.source.poll(timeout_s)
        past = self.source.jumped(self._column_ns)
        if past is not None:
            self.watch.restore(self._axis.explained(past))
        for record in records:
            self.watch.add(record)
        self._taping.add(records)
        return past is not None

    def _unjudged(self) -> bool:
        """Whether it stands at a moment at which some runs still wait for their turn."""
        return self._transport.replay and self.watch.unjudged()

    def _trouble(self, error: Exception) -> None:
        self._troubles[f"something went wrong inside gputop: {type(error).__name__}: {error}"] = None

    def _publish(self) -> None:
        """Put out a view of the moment it stands at. While nothing moves only what is around it is drawn anew."""
        watch = self._look.then() or self.watch
        cursor = self._axis.cursor()
        warnings, state = (*self.source.warnings(), *self._troubles), self._taping.state()
        shown = (watch, cursor.at_ns)
        if not cursor.playing and self._shown == shown and not watch.unjudged():
            view = msgspec.structs.replace(self._view, cursor=cursor, recording=state, warnings=warnings)
        else:
            view = watch.view(cursor.at_ns, warnings, self.source.waiting(), cursor=cursor, recording=state)
        self._shown = shown
        meant = run_shown(view, self._selected)
        run_id = None if meant is None else meant.run.run_id
        if run_id != self._axis.run_id:
            self._axis.run_id = run_id
            view = msgspec.structs.replace(view, cursor=self._axis.cursor())
        with self._fresh:
            self._view = view
            self._fresh.notify_all()
