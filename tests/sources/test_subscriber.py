"""The viewer's end of the wire, against a small publisher made of the same frames."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zmq

from gputop import records as r
from gputop.codec import pack, unpack
from gputop.sources.subscriber import BACKFILL_LIMIT, SILENT_NS, NoPlace, Stream, Subscriber, _gone
from gputop.wire import cards, framing, places


def step(n: int) -> r.Step:
    return r.Step(t=n, run_id="a", n=n, dur_ns=1, phases_ns={})


def steps(first: int, end: int) -> list[r.AnyRecord]:
    return [step(n) for n in range(first, end)]


def numbers(records: list[r.AnyRecord]) -> list[int]:
    return [record.n for record in records if isinstance(record, r.Step)]


class TestStream:
    """One run's numbered records, put back in order."""

    def feed(self, *parts: tuple[int, int]) -> tuple[Stream, list[r.AnyRecord]]:
        stream, out = Stream("a", 0), []
        stream.hello(0)
        for first, end in parts:
            stream.take(first, end - first, steps(first, end), out)
        return stream, out

    def test_in_order(self) -> None:
        assert numbers(self.feed((0, 3), (3, 5))[1]) == [0, 1, 2, 3, 4]

    def test_duplicates_and_overlaps_come_once(self) -> None:
        assert numbers(self.feed((0, 3), (0, 3), (1, 5), (2, 4))[1]) == [0, 1, 2, 3, 4]

    def test_a_hole_holds_back_what_follows_until_it_is_filled(self) -> None:
        stream, out = self.feed((0, 2), (4, 6))
        assert numbers(out) == [0, 1]
        stream.take(2, 2, steps(2, 4), out)
        assert numbers(out) == [0, 1, 2, 3, 4, 5]

    def test_what_cannot_be_had_becomes_a_gap(self) -> None:
        stream, out = self.feed((0, 2), (5, 6))
        stream.give_up(99, out)
        assert numbers(out) == [0, 1, 5]
        assert [(one.kind, one.label) for one in out if isinstance(one, r.Event)] == [
            ("gap", "3 records lost on the way")
        ]
        assert stream.lost == 3

    def test_records_of_unknown_types_keep_their_numbers(self) -> None:
        stream, out = self.feed()
        stream.take(0, 4, steps(0, 3), out)
        stream.take(4, 1, steps(4, 5), out)
        assert numbers(out) == [0, 1, 2, 4]


class Publisher:
    """As much of a publisher as the wire can see."""

    def __init__(self, directory: Path, held: int = 0) -> None:
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.records: list[r.AnyRecord] = steps(0, held)
        self.card = cards.write(cards.own_card("run", "a"), directory)
        found = cards.find("view", [directory])
        self.socket.connect(f"ipc://{found[0].card.endpoint}")

    def serve(self) -> None:
        while self.socket.poll(0):
            message = self.socket.recv()
            if message.startswith(b"\x01" + framing.PREFIX_FOR):
                self.topic = message[1:]
                run = r.Run(t=0, run_id="a", pid=1, host="h", schema=1)
                self.send(None, [r.Reply(t=0, kind="hello", ok=True, from_seq=0, next_seq=len(self.records)), run])
            elif message[:1] not in b"\x00\x01":
                request = unpack(message)
                assert isinstance(request, r.Request)
                assert request.from_seq is not None
                assert request.limit is not None
                end = min(request.from_seq + request.limit, len(self.records))
                for first in range(request.from_seq, end, framing.MAX_STEPS):
                    self.send(first, self.records[first : min(first + framing.MAX_STEPS, end)])
                self.send(None, [r.Reply(t=0, kind="backfill", ok=True, from_seq=request.from_seq, next_seq=end)])

    def send(self, seq: int | None, records: list[r.AnyRecord], topic: bytes | None = None) -> None:
        payload = framing.array([pack(one) for one in records])
        self.socket.send_multipart([topic or self.topic, framing.envelope("a", seq, payload)])

    def live(self, records: list[r.AnyRecord], *, lose: bool = False) -> None:
        first = len(self.records)
        self.records += records
        if not lose:
            self.send(first, records, framing.TOPIC_RECORDS)

    def close(self) -> None:
        self.socket.close(0)
        self.context.destroy(0)


@pytest.fixture
def subscriber(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subscriber]:
    monkeypatch.setattr(places, "candidates", lambda uid=None, env=None: [(short_dir, "GPUTOP_DIR")])
    monkeypatch.setattr(places, "_others", list)
    one = Subscriber(clock=time.time_ns)
    yield one
    one.close()


def exchange(publisher: Publisher, subscriber: Subscriber, want: int, seconds: float = 60.0) -> list[r.AnyRecord]:
    """Let both ends talk until `want` steps have come."""
    out: list[r.AnyRecord] = []
    deadline = time.monotonic() + seconds
    while len(numbers(out)) < want and time.monotonic() < deadline:
        publisher.serve()
        subscriber.socket.poll(5)
        out += subscriber.receive()
        out += subscriber.tick()
    return out


def test_a_late_viewer_gets_hello_and_the_backlog_in_order(subscriber: Subscriber, short_dir: Path) -> None:
    publisher = Publisher(short_dir, held=3 * BACKFILL_LIMIT + 100)
    out = exchange(publisher, subscriber, len(publisher.records))
    assert isinstance(out[0], r.Run)
    assert numbers(out) == list(range(3 * BACKFILL_LIMIT + 100))
    publisher.close()


def test_a_lost_message_is_asked_for_again(subscriber: Subscriber, short_dir: Path) -> None:
    publisher = Publisher(short_dir, held=10)
    out = exchange(publisher, subscriber, 10)
    publisher.live(steps(10, 20), lose=True)
    publisher.live(steps(20, 30))
    out += exchange(publisher, subscriber, 20)
    assert numbers(out) == list(range(30))
    assert subscriber.lost() == 0
    publisher.close()


def test_hostile_frames_cost_a_counted_warning_each(subscriber: Subscriber, short_dir: Path) -> None:
    publisher = Publisher(short_dir, held=5)
    out = exchange(publisher, subscriber, 5)
    for _ in range(3):
        publisher.socket.send_multipart([b"rec", b"\xc1 no envelope"])
    publisher.socket.send_multipart([b"rec", framing.envelope("a", 5, b"\x91\xc0")])
    publisher.live([step(5)])
    publisher.records.insert(5, step(5))
    publisher.live(steps(6, 9))
    out += exchange(publisher, subscriber, 3)
    assert sum(subscriber.warnings.values()) == 4
    assert max(numbers(out)) == 8
    publisher.close()


def test_a_vanished_trainer_is_named_once(subscriber: Subscriber, short_dir: Path) -> None:
    publisher = Publisher(short_dir, held=1)
    exchange(publisher, subscriber, 1)
    stream = subscriber._streams["a"]
    stream.host, stream.pid = os.uname().nodename, 2**22 + 1
    cards.remove(publisher.card)
    out = []
    deadline = time.monotonic() + 60
    while not out and time.monotonic() < deadline:
        subscriber.socket.poll(50)
        out = subscriber.tick()
    assert [(one.kind, one.run_id) for one in out if isinstance(one, r.Event)] == [("lost_process", "a")]
    publisher.close()


def test_a_trainer_whose_number_is_another_process_by_now_is_lost_once_it_is_silent(short_dir: Path) -> None:
    start = cards.process_start(os.getpid())
    assert start is not None
    stream = Stream("a", 0)
    stream.host, stream.pid, stream.start = os.uname().nodename, os.getpid(), start - 1
    assert not _gone(stream, SILENT_NS)  # it speaks: a container's, which has its own numbers
    assert _gone(stream, SILENT_NS + 1)
    stream.start = start
    assert not _gone(stream, 100 * SILENT_NS)
    stream.start = None
    assert not _gone(stream, 100 * SILENT_NS)


def test_a_trainer_of_another_pid_namespace_that_speaks_is_not_lost() -> None:
    stream = Stream("a", 0)
    stream.host, stream.pid = os.uname().nodename, 2**22 + 1  # no such number here, and its card is not to be seen
    assert not _gone(stream, SILENT_NS)
    assert _gone(stream, SILENT_NS + 1)
    stream.carded = True
    assert _gone(stream, 1)


def test_leaving_takes_card_and_socket_away(subscriber: Subscriber, short_dir: Path) -> None:
    assert {path.suffix for path in short_dir.iterdir()} == {".json", ".sock"}
    subscriber.close()
    assert list(short_dir.iterdir()) == []


def test_a_place_that_vanishes_is_made_again(subscriber: Subscriber, short_dir: Path) -> None:
    for path in short_dir.iterdir():
        path.unlink()
    short_dir.rmdir()
    deadline = time.monotonic() + 60
    while not short_dir.exists() and time.monotonic() < deadline:
        subscriber.socket.poll(50)
        subscriber.tick()
    publisher = Publisher(short_dir, held=3)
    assert numbers(exchange(publisher, subscriber, 3)) == [0, 1, 2]
    publisher.close()


def test_nowhere_to_meet_is_said_with_a_mend(monkeypatch: pytest.MonkeyPatch, short_dir: Path) -> None:
    (short_dir / "file").touch()
    monkeypatch.setattr(places, "candidates", lambda uid=None, env=None: [(short_dir / "file", "GPUTOP_DIR")])
    monkeypatch.setattr(places, "_others", list)
    with pytest.raises(NoPlace, match="set GPUTOP_DIR"):
        Subscriber(clock=time.time_ns)
