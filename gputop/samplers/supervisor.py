"""The parent's side of a sampler: starts the child, reads its records, names a silent call, kills and restarts it.

A driver that hangs hangs the child alone. The parent never waits for it: not to read, not to tell it something, not to
end it. One stuck in the kernel is left alone, and gets no second beside it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import msgspec

from gputop.records import AnyRecord, Sampler
from gputop.samplers.frames import Decoder
from gputop.samplers.protocol import S
from gputop.samplers.spawn import Spawned, command

SILENT_NS = 2 * S
"""A child sends a frame at least once a second; after twice that the call it is in is named."""

START_NS = 10 * S
"""Until its first call a child is only starting, which on a machine whose cores are all taken lasts seconds."""

KILL_NS = 15 * S
"""Silence that ends a child; drivers have stalled for seconds under load and come back."""

KILL_INIT_NS = 60 * S
"""The same while the driver initialises: without persistence mode that alone takes seconds a GPU."""

BACKOFF_NS = tuple(s * S for s in (1, 2, 4, 8, 16, 32, 60))
HEALTHY_NS = 60 * S
"""A child that has lived this long starts the back-off anew."""

SPARE_NS = tuple(s * S for s in (60, 240, 960, 3600))
"""For how long the next child leaves a call out in which one has hung: longer each time."""

MOST_HUNG = 3
"""So many calls in a row in which children hang without ever having answered: then it is the driver, and none of them
is left out."""

SAY_AGAIN_NS = S
READ_BYTES = 1 << 16
DEVICE = " gpu "
"""What a call to one device has in its name; the others (to start the library, to count) can't be left out."""


class Child(Protocol):
    """What the supervisor needs of a running child; spawn.Spawned is the real one."""

    pid: int
    fd: int

    def read(self, size: int) -> bytes | None: ...
    def write(self, data: bytes) -> int: ...
    def poll(self) -> int | None: ...
    def kill(self) -> None: ...
    def call(self) -> tuple[str, int] | None: ...
    def release(self) -> None: ...


class Supervisor:
    """Keeps one sampler running. All calls return at once; all are made from one thread, but `close`, from any.

    `kind` is "gpu" or "host"; `backend` None is the real one, "simulated:PATH" a simulated one. `offset_ns` is the
    reader's epoch minus CLOCK_MONOTONIC, which the child's records then share. `clock` is the trace's clock.
    """

    def __init__(
        self,
        kind: str,
        *,
        host: str,
        interval_s: float = 1.0,
        backend: str | None = None,
        offset_ns: int | None = None,
        env: Mapping[str, str] | None = None,
        clock: Callable[[], int] | None = None,
        spawn: Callable[[], Child] | None = None,
    ) -> None:
        offset = time.time_ns() - time.monotonic_ns() if offset_ns is None else offset_ns
        self.kind = kind
        self.host = host
        self.backend = (backend or "nvml").partition(":")[0] if kind == "gpu" else kind
        self.faults = 0
        self.restarts = 0
        self._clock = clock or (lambda: offset + time.monotonic_ns())
        line = command(kind, interval_s=interval_s, backend=backend, offset_ns=offset)
        self._spawn: Callable[[], Child] = spawn or (lambda: Spawned(line, env))
        self._child: Child | None = None
        self._decoder = Decoder()
        self._records: list[AnyRecord] = []
        self._notices: list[Sampler] = []
        self._latest: dict[str, Any] = {}
        self._outbox = b""
        self._untold = False
        self._closed = self._dying = self._heard_once = False
        self._started_ns = self._heard_ns = self._said_ns = self._start_ns = 0
        self._failures = 0
        self._mute = 0
        self._hung: dict[str, int] = {}
        self._why: str | None = None
        self._call: str | None = None

    def start(self) -> Supervisor:
        """Start the child. What goes wrong is told by `tick`."""
        self._launch(self._clock())
        return self

    def fileno(self) -> int:
        """The descriptor to poll, -1 while there is no child. It changes when the child does: ask before each poll."""
        child = self._child
        return child.fd if child is not None and not self._dying else -1

    @property
    def pid(self) -> int | None:
        """The child's pid, None while there is none."""
        child = self._child
        return child.pid if child is not None else None

    def read(self) -> list[AnyRecord]:
        """The records that have come."""
        self._drain()
        records, self._records = self._records, []
        return records

    def tell(self, message: Mapping[str, Any]) -> None:
        """Tell the child something (see child.py): the last value of each key wins, also for a later child."""
        self._latest.update(message)
        self._untold = True
        self._flush()

    def tick(self, now_ns: int) -> list[Sampler]:
        """Look after the child; what there is to say about it. Call about once a second or more often."""
        if self._closed:
            return []
        self._drain()
        self._flush()
        child = self._child
        if child is None:
            if now_ns >= self._start_ns:
                self._launch(now_ns)
        elif (status := child.poll()) is not None:
            self._drain()
            self._bury(child, now_ns, self._why or f"the sampler ended with status {status}")
        else:
            self._listen(child, now_ns)
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        """End the child and forget it, at once: a hung one is killed and not waited for."""
        self._closed = True
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.release()

    def _launch(self, now_ns: int) -> None:
        try:
            child = self._spawn()
        except OSError as error:
            self._say(now_ns, "silent", why=f"the {self.kind} sampler can't be started: {error.strerror or error}")
            self._postpone(now_ns)
            return
        self._child = child
        if self._closed:
            self.close()
            return
        if self._failures:
            self.restarts += 1
            self._say(now_ns, "restarted", call=self._call, why=self._why)
        self._decoder = Decoder()
        self._dying = self._heard_once = False
        self._started_ns = self._heard_ns = now_ns
        self._outbox, self._untold = b"", bool(self._latest)
        self._why = self._call = None
        self._flush()

    def _listen(self, child: Child, now_ns: int) -> None:
        """Name a silent call, and end a child that has been silent for too long."""
        if self._heard_once and now_ns - self._started_ns >= HEALTHY_NS and not self._dying:
            self._failures = 0
        quiet_ns = now_ns - self._heard_ns
        if quiet_ns < SILENT_NS:
            return
        now_in = child.call()
        call = now_in[0] if now_in else None
        if not self._heard_once and call is None and quiet_ns < START_NS:
            return
        initialising = not self._heard_once or (call or "").startswith("nvmlInit")
        if not self._dying and quiet_ns >= (KILL_INIT_NS if initialising else KILL_NS):
            self._call = call
            self._spare(call)
            self._end(child, f"no answer for {quiet_ns // S} s" + (f" from {call}" if call else ""))
        elif now_ns - self._said_ns >= SAY_AGAIN_NS:
            stuck = "killed, but still inside the driver: waiting for it to come back" if self._dying else None
            self._say(now_ns, "silent", silent_ns=quiet_ns, call=call or self._call, why=stuck)

    def _spare(self, call: str | None) -> None:
        """Have the next child leave a call out that concerns one device, for a while, since this one hung in it."""
        self._mute = 0 if self._heard_once else self._mute + 1
        times, spared = self._hung, dict(self._latest.get("hung", {}))
        if self._mute >= MOST_HUNG:
            self._mute, self._hung, spared = 0, {}, {}
        elif call is not None and DEVICE in call:
            times[call] = times.get(call, 0) + 1
            spared[call] = SPARE_NS[min(times[call], len(SPARE_NS)) - 1]
        if spared or "hung" in self._latest:
            self._latest["hung"] = spared

    def _drain(self) -> None:
        child = self._child
        if child is None or self._dying:
            return
        while data := child.read(READ_BYTES):
            fed = self._decoder.feed(data)
            self.faults += fed.faults
            self._records += fed.records
            self._learn_name(fed.records)
            if fed.frames:
                self._heard_ns, self._heard_once = self._clock(), True
            if fed.corrupt:
                self.faults += 1
                self._end(child, f"the sampler sent {fed.corrupt}")
                return
            if len(data) < READ_BYTES:
                return

    def _learn_name(self, records: list[AnyRecord]) -> None:
        for record in records:
            if isinstance(record, Sampler):
                self.backend = record.backend

    def _flush(self) -> None:
        child = self._child
        if child is None or self._dying:
            return
        if not self._outbox and self._untold:
            self._outbox, self._untold = msgspec.json.encode(self._latest) + b"\n", False
        if self._outbox:
            self._outbox = self._outbox[child.write(self._outbox) :]

    def _end(self, child: Child, why: str) -> None:
        child.kill()
        self._dying, self._why = True, why

    def _bury(self, child: Child, now_ns: int, why: str) -> None:
        child.release()
        self._child, self._dying, self._why = None, False, why
        self._postpone(now_ns)
        # Not "absent", which says that there is nothing to sample.
        self._say(now_ns, "silent", call=self._call, why=why)

    def _postpone(self, now_ns: int) -> None:
        self._start_ns = now_ns + BACKOFF_NS[min(self._failures, len(BACKOFF_NS) - 1)]
        self._failures += 1

    def _say(self, now_ns: int, state: str, **more: Any) -> None:
        self._said_ns = now_ns
        self._notices.append(Sampler(t=now_ns, host=self.host, backend=self.backend, state=state, **more))
