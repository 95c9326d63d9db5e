"""The viewer's end of the wire: binds where trainers look, asks for what it missed, and hands out records in order.

A run's records are numbered. Each run's stream is followed on its own: duplicates are dropped, a hole is asked for
again once, and what can't be had any more becomes a `gap` event.
"""

from __future__ import annotations

import os
import secrets
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import zmq

from gputop.codec import Undecodable, pack, unpack_many
from gputop.records import AnyRecord, Event, Reply, Request, Run, implausible
from gputop.wire import cards, framing, places

S = 1_000_000_000

BACKFILL_LIMIT = 2048
"""Records asked for in one request: eight envelopes, half of a publisher's high-water mark."""

ANSWER_NS = 2 * S
"""How long a publisher may take to answer before what it owes is given up as a gap."""

HELD_LIMIT = 4096
"""Envelopes held while a hole is being filled; beyond it the hole is given up."""

ALIGNED_NS = 5_000_000
"""Offsets that differ by less than this are left alone: no window is that fine."""

RECEIVE_HWM = 256
CHECK_NS = S
SILENT_NS = 3 * S
"""A run of whose process there is some doubt is gone after so long without a word: alive, it speaks every second."""


class NoPlace(Exception):  # noqa: N818
    """No directory to meet trainers in; the text says which were tried, why not, and what to do."""


class Stream:
    """One run's numbered records, put back in order."""

    def __init__(self, run_id: str, now_ns: int) -> None:
        self.run_id = run_id
        self.expected: int | None = None
        self.target = 0
        self.held: dict[int, tuple[int, list[AnyRecord]]] = {}
        self.asked_ns: int | None = None
        self.since_ns = now_ns
        self.lost = 0
        self.shift_ns = 0
        self.pid: int | None = None
        self.host: str | None = None
        self.start: int | None = None
        self.heard_ns = now_ns
        self.carded = False
        self.over = False

    def hello(self, oldest: int) -> None:
        """Start at the oldest record that the publisher still has, if nothing was followed yet."""
        if self.expected is None:
            self.expected = oldest

    def behind(self) -> bool:
        """Whether records that the publisher spoke of are still missing."""
        return self.expected is not None and self.expected < self.target

    def take(self, seq: int, count: int, records: list[AnyRecord], out: list[AnyRecord]) -> None:
        """Take in `count` records from `seq` on (`records` are those that could be read); give out what is in order."""
        end = seq + count
        if self.expected is not None and end <= self.expected:
            return
        if self.expected is not None and seq < self.expected:
            records = records[self.expected - seq :] if len(records) == count else records
            seq = self.expected
        kept = self.held.get(seq)
        if kept is None or kept[0] < end:
            self.held[seq] = (end, records)
        self.drain(out)

    def drain(self, out: list[AnyRecord]) -> None:
        """Give out everything held that follows on what was given out before."""
        while self.held and self.expected is not None:
            first = min(self.held)
            end, records = self.held[first]
            if first > self.expected:
                return
            del self.held[first]
            if end > self.expected:
                out.extend(records[self.expected - first :] if len(records) == end - first else records)
                self.expected = end
        if not self.held:
            self.asked_ns = None

    def skip_to(self, seq: int, t_ns: int, out: list[AnyRecord]) -> None:
        """Give up what is missing before `seq`."""
        if self.expected is not None and seq > self.expected:
            missing = seq - self.expected
            self.lost += missing
            out.append(Event(t=t_ns, kind="gap", run_id=self.run_id, label=f"{missing} records lost on the way"))
        self.expected = max(seq, self.expected or 0)
        self.asked_ns = None
        self.drain(out)

    def give_up(self, t_ns: int, out: list[AnyRecord]) -> None:
        """Go on with the first record held."""
        if self.held:
            self.skip_to(min(self.held), t_ns, out)
        self.asked_ns = None


class Subscriber:
    """A bound socket that publishers connect to. Poll `socket`; `receive` and `tick` never block."""

    def __init__(
        self,
        *,
        clock: Callable[[], int],
        offset_ns: int | None = None,
        env: Mapping[str, str] = os.environ,
    ) -> None:
        self.id = secrets.token_hex(4)
        self.warnings: dict[str, int] = {}
        self.known: dict[str, cards.Found] = {}
        self._clock = clock
        self._offset_ns = offset_ns
        self._env = env
        self._streams: dict[str, Stream] = {}
        self._bound: dict[Path, Path] = {}
        self._made: set[Path] = set()
        weakref.finalize(self, _take_away, self._made)  # also when the process ends before it can close
        self._why: dict[Path, str] = {}
        self._checked_ns = 0
        self._touched_ns = 0
        self._context = zmq.Context(io_threads=1)
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.XSUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.RCVHWM, RECEIVE_HWM)
        self.socket.setsockopt(zmq.MAXMSGSIZE, framing.MAX_FRAME_BYTES)
        self.socket.send(b"\x01" + framing.TOPIC_RECORDS)
        self.socket.send(b"\x01" + framing.topic_for(self.id))
        self._bind()
        if not self._bound:
            self.close()
            raise NoPlace(_no_place(env, self._why))

    def _bind(self) -> None:
        """Be found in every meeting place; again in one that vanished and came back."""
        for place in places.writing_places(self._env):
            card_path = self._bound.get(place.path)
            if card_path is not None and cards.touch(card_path) and card_path.with_suffix(".sock").exists():
                continue
            path = place.path / f"view-{self.id}.sock"
            self._made |= {path, path.with_suffix(".json")}
            try:
                if card_path is not None:
                    self._unbind(path)
                self.socket.bind(f"ipc://{path}")
                os.chmod(path, 0o600)
                card = cards.write(cards.own_card("view", self.id, endpoint=str(path)), place.path)
                owner = place.path.stat()
                if os.getuid() == 0 and owner.st_uid != 0:
                    os.chown(path, owner.st_uid, owner.st_gid)
                    os.chown(card, owner.st_uid, owner.st_gid)
                self._bound[place.path] = card
            except (OSError, zmq.ZMQError) as error:
                self._unbind(path)
                cards.remove(path)
                self._why[place.path] = getattr(error, "strerror", None) or str(error)
                self._warn(f"no trainer can find this viewer through {place.path}: {self._why[place.path]}")

    def _unbind(self, path: Path) -> None:
        try:
            self.socket.unbind(f"ipc://{path}")
        except zmq.ZMQError:
            return

    def receive(self, limit: int = 200) -> list[AnyRecord]:
        """Records that have come in, in order for each run; at most `limit` messages are taken."""
        out: list[AnyRecord] = []
        for _ in range(limit):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            except zmq.ZMQError:
                break
            self._message(frames, out)
        return out

    def _message(self, frames: list[bytes], out: list[AnyRecord]) -> None:
        try:
            envelope = framing.open_envelope(frames)
        except framing.Malformed as error:
            self._warn(f"a message was ignored: {error}")
            return
        records, faults = unpack_many(bytes(envelope.payload))
        self._count(faults)
        now = self._clock()
        stream = self._streams.get(envelope.run_id)
        if stream is None:
            stream = self._streams[envelope.run_id] = Stream(envelope.run_id, now)
        stream.heard_ns = now
        for record in records:
            if isinstance(record, Run):
                stream.pid, stream.host, stream.start = record.pid, record.host, record.start_ticks
                stream.shift_ns = self._shift(record)
            elif isinstance(record, Event) and record.kind == "exit" and record.run_id == stream.run_id:
                stream.over = True
        for index, record in enumerate(records):
            if (why := implausible(record)) is not None:
                self._warn(f"a record was ignored: {why}")
                records[index] = Event(t=now, kind="gap", run_id=envelope.run_id, label=f"a record with {why}")
        if stream.shift_ns:
            records = [msgspec.structs.replace(one, t=one.t + stream.shift_ns) for one in records]
        if envelope.seq is None:
            self._unnumbered(stream, records, out, now)
        else:
            stream.take(envelope.seq, len(records) + len(faults), records, out)
        self._ask(stream, now)

    def _shift(self, run: Run) -> int:
        """What to add to a run's times: its process fixed another offset over the monotonic clock that both share."""
        if run.offset_ns is None or self._offset_ns is None or run.host != os.uname().nodename:
            return 0
        shift = self._offset_ns - run.offset_ns
        return shift if abs(shift) > ALIGNED_NS else 0

    def _unnumbered(self, stream: Stream, records: list[AnyRecord], out: list[AnyRecord], now: int) -> None:
        for record in records:
            if not isinstance(record, Reply):
                out.append(record)
            elif record.kind == "hello" and record.from_seq is not None:
                stream.hello(record.from_seq)
                stream.target = max(stream.target, record.next_seq or 0)
                stream.drain(out)
                if stream.behind():
                    self._request(stream, now)
            elif record.kind == "profile":
                if not record.ok:
                    self._warn(f"no profile was made: {record.why or 'no reason was given'}")
            elif record.kind == "backfill":
                stream.asked_ns = None
                if record.from_seq is not None and stream.expected is not None and record.from_seq > stream.expected:
                    stream.skip_to(record.from_seq, now, out)
                if stream.behind() and (record.next_seq or 0) > (record.from_seq or 0):
                    self._request(stream, now)

    def _ask(self, stream: Stream, now: int) -> None:
        """Ask once for what is missing before the first record held."""
        if stream.held and stream.expected is not None and stream.asked_ns is None:
            self._request(stream, now)

    def _request(self, stream: Stream, now: int) -> None:
        stream.asked_ns = now
        self._send(
            Request(
                t=now,
                kind="backfill",
                run_id=stream.run_id,
                viewer=self.id,
                from_seq=stream.expected,
                limit=BACKFILL_LIMIT,
            )
        )

    def request(self, run_id: str, kind: str, *, steps: int | None = None) -> None:
        """Ask one run for something. What it answers comes as records; a refusal is told among the `warnings`."""
        self._send(Request(t=self._clock(), kind=kind, run_id=run_id, viewer=self.id, steps=steps))

    def _send(self, request: Request) -> None:
        try:
            self.socket.send(pack(request), zmq.NOBLOCK)
        except zmq.ZMQError:
            return

    def tick(self) -> list[AnyRecord]:
        """Once a second: who is there, who has vanished, which answers are overdue. Safe to call more often."""
        now = self._clock()
        if 0 <= now - self._checked_ns < CHECK_NS:
            return []
        self._checked_ns = now
        out: list[AnyRecord] = []
        self._bind()
        directories = [place.path for place in places.reading_places(self._env)]
        self.known = {found.card.id: found for found in cards.find("run", directories)}
        cards.find("view", directories, sweep=True)
        for stream in self._streams.values():
            self._overdue(stream, now, out)
            stream.carded |= stream.run_id in self.known
            if not stream.over and stream.pid is not None and stream.run_id not in self.known and _gone(stream, now):
                stream.over = True
                out.append(
                    Event(
                        t=now,
                        kind="lost_process",
                        run_id=stream.run_id,
                        label=f"process {stream.pid} vanished without a word",
                    )
                )
        return out

    def _overdue(self, stream: Stream, now: int, out: list[AnyRecord]) -> None:
        if stream.expected is None:
            if stream.held and now - stream.since_ns > ANSWER_NS:
                stream.expected = min(stream.held)
                stream.drain(out)
        elif len(stream.held) > HELD_LIMIT or (stream.asked_ns is not None and now - stream.asked_ns > ANSWER_NS):
            stream.give_up(now, out)

    def silent(self) -> list[cards.Found]:
        """Runs that have a card but have not said anything."""
        return [found for run_id, found in self.known.items() if run_id not in self._streams]

    def lost(self) -> int:
        """Records known to be lost, all runs together."""
        return sum(stream.lost for stream in self._streams.values())

    def _count(self, faults: list[Undecodable]) -> None:
        for fault in faults:
            if not fault.unknown:
                self._warn(f"a record was ignored: {fault}")

    def _warn(self, text: str) -> None:
        if text in self.warnings or len(self.warnings) < 20:
            self.warnings[text] = self.warnings.get(text, 0) + 1

    def close(self) -> None:
        """Leave every meeting place, waiting for nothing."""
        for card in self._bound.values():
            cards.remove(card, card.with_suffix(".sock"))
        self._bound.clear()
        self.socket.close(0)
        self._context.destroy(0)


def _take_away(made: set[Path]) -> None:
    cards.remove(*made)


def _gone(stream: Stream, now: int) -> bool:
    """Whether the run's process is not there any more, as far as this machine can tell: none has its number, or one
    that has started at another time. One whose card was never seen here may be another pid namespace's, with numbers of
    its own: then it must be silent too."""
    if stream.host != os.uname().nodename or stream.pid is None:
        return False
    silent = now - stream.heard_ns > SILENT_NS
    start = cards.process_start(stream.pid)
    if start is None:
        return (stream.carded or silent) and not (cards.foreign_proc() and cards.answers(stream.pid))
    return start != (stream.start or start) and silent


def _no_place(env: Mapping[str, str], failed: Mapping[Path, str]) -> str:
    tried = "; ".join(
        f"{place.path}: {place.why or failed.get(place.path, 'in use').lower()}"
        for path, source in places.candidates(env=env)
        for place in [places.prepare(path, source)]
    )
    return f"no directory to meet training processes in ({tried}); set GPUTOP_DIR to a short private directory"
