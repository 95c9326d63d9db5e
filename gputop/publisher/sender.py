"""The one thread that speaks for a run: numbers what the ring took in, sends it, answers viewers, says `alive`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from gputop.codec import pack
from gputop.publisher.counting import Sums
from gputop.publisher.frames import stack_of
from gputop.publisher.oath import confess
from gputop.publisher.profiling import Profiling
from gputop.publisher.ring import INBOX, Entry
from gputop.publisher.sampling import EVERY_NS, Sampling
from gputop.publisher.segment import Segment, to_record
from gputop.records import Alive, Event, Record, Reply, Request
from gputop.wire import framing
from gputop.wire.clocks import ClockWatch

if TYPE_CHECKING:
    from gputop.publisher.core import Publisher
    from gputop.publisher.post import Post

S = 1_000_000_000
ROW_NS = 300_000
"""How long records are folded or encoded in a row, during which the training thread can't have the interpreter. It is
the number of rows that its steps feel, so they are as long as that allows."""

SLICE, ENTRIES = 40, 200
"""Records, and entries of the tape, between two looks at the clock: 0.2 ms at most."""

BREATH_S = 0.0001
"""A pause after each chunk, long enough for the training thread to wake and take the interpreter: after a sleep of zero
this thread would have it back first, and keep it for the whole switch interval of 5 ms."""

TICK_NS = 100_000_000
"""Between two looks at the inbox while someone listens; sooner when it fills fast."""

IDLE_TICK_NS = 500_000_000
"""The same with no viewer."""

STUCK_NS = 5 * S
"""A phase open for longer is told with the training thread's stack."""

MAX_BACKFILL = 2048
LEAVE_S = 0.2
"""How long the end of the process may wait for the last words."""


class Sender:
    """Started when a process becomes a run; `leave` ends it."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._ring = publisher.ring
        self._sampling = Sampling()
        self._late_ns = 0
        self.profiling = Profiling(publisher)
        self._post: Post | None = None
        self._over = threading.Event()
        self.wake = threading.Event()
        """Set when the inbox fills, or to end a pause."""
        self._told: set[str] = set()
        self._sent = 0
        self._rate = 0.0
        self._looked = self._spoke = self._taken_at = 0
        self._clocks = ClockWatch(publisher.offset_ns)
        self.thread = threading.Thread(target=self._run, name="gputop", daemon=True)

    def leave(self) -> None:
        """Say the last words and stop, in LEAVE_S at most."""
        self._over.set()
        self.wake.set()
        if self.thread.is_alive() and self.thread is not threading.current_thread():
            self.thread.join(LEAVE_S)
            if self.thread.is_alive() and self._post is not None:
                self._post.forget_card()

    def _run(self) -> None:
        try:
            from gputop.publisher.post import Post

            self._post = Post(self._publisher.run_id, self._publisher.script)
        except Exception as error:
            confess("sending", error)
            return
        while not self._over.is_set():
            try:
                self._turn(time.monotonic_ns())
                self._pause()
            except Exception as error:
                confess("sending", error)
                self._over.wait(1.0)
        try:
            self._last_words()
        except Exception as error:
            confess("leaving", error)

    def _pause(self) -> None:
        """Wait for a word from a viewer, or until it is time to look at the inbox again."""
        post = self._post
        connected = post is not None and post.connected
        tick = EVERY_NS if connected else IDLE_TICK_NS
        if self._rate > 0:
            tick = min(tick, int(0.3 * INBOX / self._rate * S))
        self._late_ns = 0
        if connected and post is not None:
            milliseconds, began = max(1, tick // 1_000_000), time.monotonic_ns()
            if not post.wait(milliseconds):
                self._late_ns = time.monotonic_ns() - began - milliseconds * 1_000_000
        else:
            self.wake.wait(max(0.001, tick / S))
            if not self._over.is_set():
                self.wake.clear()

    def _turn(self, now: int) -> None:
        post = self._post
        assert post is not None
        if now - self._looked >= S:
            self._looked = now
            try:
                post.look()
            except Exception as error:
                confess("looking for viewers", error)
        self.profiling.look(now)
        self._take_in(now)
        if post.connected:
            phase = self._publisher.tape.ledger.open_phase()
            if phase is not None and not self._publisher.skip:
                self._sampling.take(self._publisher.thread, phase[0], now, self._late_ns)
            self._answer()
        if now - self._spoke >= S:
            self._spoke = now
            self._speak(now)

    def _take_in(self, now: int) -> None:
        """Read the tape and empty the inbox, a row at a time, sending each while there is a viewer."""
        taken = 0
        started = row = time.monotonic_ns()
        publisher, ring = self._publisher, self._ring
        while not (taken and self._over.is_set() and not ring.inbox and not publisher.entries):
            more = publisher.read_tape(ENTRIES)
            count = ring.collect(SLICE)
            taken += count
            if self._post is not None and self._post.connected:
                self._send_new()
            else:
                self._sent = ring.next
            at = time.monotonic_ns()
            if (count < SLICE and not more) or at - started > S:
                break
            if at - row > ROW_NS:
                time.sleep(BREATH_S)
                row = time.monotonic_ns()
        since = max(1, now - self._taken_at)
        self._taken_at = now
        self._rate = max(taken * S / since, self._rate * 0.7)

    def _send_new(self) -> None:
        start, stop = max(self._sent, self._ring.first), self._ring.next
        if start >= stop:
            return
        encoded = [self._encode(entry) for entry in self._ring.between(start, stop)]
        for batch in framing.batches(encoded):
            if self._post is not None:
                self._post.send(framing.TOPIC_RECORDS, start, batch)
            start += len(batch)
        self._sent = stop

    def _encode(self, entry: Entry) -> bytes:
        return pack(self._record(entry))

    def _record(self, entry: Entry) -> Record:
        if isinstance(entry, Segment):
            publisher = self._publisher
            return to_record(
                entry,
                publisher.run_id,
                publisher.offset_ns,
                knows_backward=publisher.tape.ledger.loop.knows_backward,
            )
        if isinstance(entry, Sums):
            return entry.record(self._publisher.run_id, self._publisher.to_epoch(entry.start))
        return entry

    def _answer(self) -> None:
        post = self._post
        while post is not None and (word := post.receive()) is not None:
            if isinstance(word, Request):
                self._serve(word)
            elif word:
                self._greet(word)

    def _greet(self, viewer: str) -> None:
        """A viewer has come: who this is, what is held, and the sums of what is not."""
        publisher, ring = self._publisher, self._ring
        self._send_new()
        records: list[Record] = [
            self._reply("hello", from_seq=ring.first, next_seq=ring.next),
            publisher.describe(),
            *publisher.facts.values(),
        ]
        if viewer not in self._told:
            self._told.add(viewer)
            records += ring.folds(publisher.run_id, publisher.to_epoch)
            records += ring.events
        if self._post is not None:
            self._post.send_apart(framing.topic_for(viewer), records)

    def _serve(self, request: Request) -> None:
        viewer = request.viewer
        if viewer is None or self._post is None:
            return
        topic = framing.topic_for(viewer)
        if request.kind == "hello":
            self._greet(viewer)
        elif request.kind == "backfill":
            self._backfill(request, topic)
        elif request.kind == "mark" and request.text:
            self._publisher.note("marker", time.monotonic_ns(), 0, request.text[:200])
            self._post.send_apart(topic, [self._reply("mark")])
        elif request.kind == "profile":
            self.profiling.ask(request.steps, lambda why: self._tell_profile(topic, why))
        else:
            self._post.send_apart(topic, [self._reply(request.kind, ok=False, why="there is no such request")])

    def _tell_profile(self, topic: bytes, why: str | None) -> None:
        if why is None:
            self._take_in(time.monotonic_ns())
        if self._post is not None:
            self._post.send_apart(topic, [self._reply("profile", ok=why is None, why=why)])

    def _backfill(self, request: Request, topic: bytes) -> None:
        ring = self._ring
        start = max(ring.first, request.from_seq or 0)
        stop = min(ring.next, start + max(1, min(request.limit or MAX_BACKFILL, MAX_BACKFILL)))
        at = start
        while at < stop and self._post is not None:
            encoded = [self._encode(entry) for entry in ring.between(at, min(stop, at + SLICE))]
            for batch in framing.batches(encoded):
                self._post.send(topic, at, batch)
                at += len(batch)
            time.sleep(BREATH_S)
        if self._post is not None:
            self._post.send_apart(topic, [self._reply("backfill", from_seq=start, next_seq=stop)])

    def _reply(
        self,
        kind: str,
        *,
        ok: bool = True,
        from_seq: int | None = None,
        next_seq: int | None = None,
        why: str | None = None,
    ) -> Reply:
        return Reply(
            t=time.time_ns(),
            kind=kind,
            ok=ok,
            run_id=self._publisher.run_id,
            from_seq=from_seq,
            next_seq=next_seq,
            why=why,
        )

    def _speak(self, now: int) -> None:
        """Once a second: a sign of life, and where the loop's own time went."""
        publisher, ring = self._publisher, self._ring
        self._watch_clock(now)
        publisher.end_second(now)
        publisher.learn_pace()
        for look in tuple(publisher.each_second):
            look(now)
        if self._post is None or not self._post.connected:
            return
        phase = publisher.open_phase()
        stuck = phase is not None and now - phase[1] > STUCK_NS
        site = self._sampling.record(publisher.run_id, publisher.to_epoch(now))
        if site is not None:
            ring.put(site)
        ring.put(
            Alive(
                t=publisher.to_epoch(now),
                run_id=publisher.run_id,
                steps=publisher.steps,
                open_phase=phase[0] if phase else None,
                open_since_ns=publisher.to_epoch(phase[1]) if phase else None,
                dropped=ring.dropped or None,
                stack=stack_of(publisher.thread) if stuck else None,
            )
        )
        self._take_in(now)

    def _watch_clock(self, now: int) -> None:
        """Someone set the wall clock, or the machine slept: told, never corrected."""
        moved = self._clocks.look()
        if moved is not None:
            self._publisher.note("clock", now, 0, moved)

    def _last_words(self) -> None:
        self._take_in(time.monotonic_ns())
        while self._ring.inbox or self._publisher.entries:
            self._take_in(time.monotonic_ns())
        if self._post is not None:
            self._post.leave()


def exit_event(t: int, run_id: str, label: str | None) -> Event:
    """The run's last word."""
    return Event(t=t, kind="exit", run_id=run_id, label=label)
