"""The publisher's end of the wire: one XPUB socket that connects to every viewer it finds and never listens.

A listening trainer could be aborted by a viewer (libzmq ends the process when accept() runs out of descriptors), so
viewers listen and trainers connect. With no viewer there is no socket at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

import zmq

from gputop.codec import Undecodable, pack, unpack
from gputop.publisher.oath import mention
from gputop.records import Request, clean
from gputop.wire import cards, framing, places

SEND_HWM = 16
"""Envelopes that may wait for one viewer: 1 MB at most, for a viewer that has stopped reading."""

MAX_ENDPOINT = 107
"""Bytes of a Unix socket's path (sun_path of Linux, less its NUL)."""

LINGER_MS = 150
"""How long the last words may take to leave at exit."""


SPARE_DESCRIPTORS = 16
SPARE_THREADS = 3
"""What must be free before ZeroMQ is touched: it ends the process where a descriptor or thread of its own is refused
(epoll.cpp and thread.cpp of libzmq 4.3), and takes some eight descriptors and two threads."""


def _room() -> bool:
    """Whether the process has descriptors and threads to spare."""
    held: list[int] = []
    try:
        for _ in range(SPARE_DESCRIPTORS):
            held.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    finally:
        for descriptor in held:
            os.close(descriptor)
    go = threading.Event()
    threads = [threading.Thread(target=go.wait, daemon=True) for _ in range(SPARE_THREADS)]
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:
        return False
    finally:
        go.set()
    return True


def _honest(found: cards.Found) -> bool:
    """Whether a viewer's endpoint stands beside its card and is short enough for a socket."""
    endpoint = found.card.endpoint or ""
    return os.path.dirname(endpoint) == str(found.path.parent) and len(os.fsencode(endpoint)) <= MAX_ENDPOINT


class Post:
    """Connections to viewers, and a card in the meeting place that says who runs here. For the sending thread alone."""

    def __init__(self, run_id: str, script: str) -> None:
        self._run_id = run_id
        self._script = script
        self._card: Path | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._endpoints: dict[str, str] = {}

    @property
    def connected(self) -> bool:
        """Whether there is any viewer to send to."""
        return self._socket is not None

    def look(self) -> None:
        """About once a second: keep the card there, connect to viewers that came, leave those that went. May raise."""
        self._keep_card()
        found = {
            one.card.id: one.card.endpoint
            for one in cards.find("view", [place.path for place in places.reading_places()], sweep=False)
            if one.card.endpoint is not None and _honest(one)
        }
        for viewer, endpoint in list(self._endpoints.items()):
            if found.get(viewer) != endpoint:
                del self._endpoints[viewer]
                if self._socket is not None:
                    self._disconnect(endpoint)
        for viewer, endpoint in found.items():
            if viewer not in self._endpoints and (socket := self._open()) is not None:
                try:
                    socket.connect(f"ipc://{endpoint}")
                except zmq.ZMQError as error:
                    mention(f"a viewer can't be reached: {clean(str(error), 100)}")
                    continue
                self._endpoints[viewer] = endpoint
        if not self._endpoints:
            self._hang_up()

    def _keep_card(self) -> None:
        if self._card is not None and cards.touch(self._card):
            return
        card = cards.own_card("run", self._run_id, script=self._script)
        for place in places.writing_places():
            try:
                self._card = cards.write(card, place.path)
                return
            except OSError:
                continue
        mention("no directory to meet viewers in can be written to; set GPUTOP_DIR to a short private one")

    def _open(self) -> zmq.Socket[bytes] | None:
        """The socket, made when it is first needed; None while the process has no room for it."""
        if self._socket is None:
            if not _room():
                mention("no viewer is served: this process has no file descriptors or threads to spare")
                return None
            if self._context is None:
                self._context = zmq.Context(io_threads=1)
            self._socket = self._context.socket(zmq.XPUB)
            self._socket.setsockopt(zmq.SNDHWM, SEND_HWM)
            self._socket.setsockopt(zmq.LINGER, 0)
            self._socket.setsockopt(zmq.RECONNECT_IVL, 500)
            self._socket.setsockopt(zmq.MAXMSGSIZE, 4096)
        return self._socket

    def _disconnect(self, endpoint: str) -> None:
        if self._socket is not None:
            try:
                self._socket.disconnect(f"ipc://{endpoint}")
            except zmq.ZMQError:
                return

    def _hang_up(self, linger_ms: int = 0) -> None:
        """Close the socket. The context stays: making one is what can fail in ways that no Python code survives."""
        socket, self._socket = self._socket, None
        if socket is not None:
            socket.close(linger_ms)

    def _close(self, linger_ms: int) -> None:
        self._hang_up(linger_ms)
        context, self._context = self._context, None
        if context is not None:
            context.term()

    def wait(self, timeout_ms: int) -> bool:
        """Wait for a word from a viewer; whether there is one."""
        return self._socket is not None and bool(self._socket.poll(timeout_ms))

    def receive(self) -> str | Request | None:
        """One word from a viewer: its id when it has just subscribed, or a request. None: no more, or not for us."""
        if self._socket is None:
            return None
        try:
            word = self._socket.recv(zmq.NOBLOCK)
        except zmq.ZMQError:
            return None
        if word[:1] == b"\x01" and word[1:].startswith(framing.PREFIX_FOR):
            return word[1 + len(framing.PREFIX_FOR) :].rstrip(b"\0").decode(errors="replace")
        if word[:1] in (b"\x00", b"\x01"):
            return ""
        try:
            record = unpack(word)
        except Undecodable:
            return ""
        mine = isinstance(record, Request) and record.run_id in (None, self._run_id)
        return record if mine and isinstance(record, Request) else ""

    def send(self, topic: bytes, seq: int | None, encoded: list[bytes]) -> bool:
        """One envelope to whoever subscribes to `topic`; never waits. False when it could not be sent at all."""
        if self._socket is None or not encoded:
            return False
        body = framing.envelope(self._run_id, seq, framing.array(encoded))
        try:
            self._socket.send_multipart((topic, body), zmq.NOBLOCK)
        except zmq.ZMQError:
            return False
        return True

    def send_apart(self, topic: bytes, records: Iterable[object]) -> None:
        """Records outside the count, in as many envelopes as they need."""
        encoded = [pack(record) for record in records]  # type: ignore[arg-type]
        for batch in framing.batches(encoded):
            self.send(topic, None, batch)

    def leave(self) -> None:
        """The run is over: the card goes, and what was sent last gets a moment to leave."""
        if self._card is not None:
            cards.remove(self._card)
        self._close(LINGER_MS)

    def forget_card(self) -> None:
        """Take the card away alone, where the rest can't be waited for."""
        if self._card is not None:
            cards.remove(self._card)
