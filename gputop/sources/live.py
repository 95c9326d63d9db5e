"""The live source: publishers over ZeroMQ and the samplers' pipes, polled together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

import zmq

from gputop.pids import Pid
from gputop.recording.past import Past
from gputop.records import AnyRecord, Event, Loader, Run
from gputop.samplers import namespaces, proc
from gputop.samplers.supervisor import Supervisor
from gputop.sources import Transport
from gputop.sources.clock import TraceClock
from gputop.sources.subscriber import S, Subscriber
from gputop.sources.unannounced import Unannounced
from gputop.wire import cards, places

if TYPE_CHECKING:
    from gputop.samplers.attach.attachment import Attachment
    from gputop.samplers.attach.inside import Look

SILENT_AFTER_NS = 3 * S
"""A run that has a card but says nothing for this long is named."""


class LiveSource:
    """Everything that happens on this machine."""

    name = "live"

    def __init__(
        self,
        *,
        interval_s: float = 1.0,
        backend: str | None = None,
        env: Mapping[str, str] = os.environ,
        cmdlines: bool = True,
    ) -> None:
        self.simulated = backend is not None and backend.startswith("simulated:")
        self.clock = TraceClock()
        self._host = os.uname().nodename
        self._subscriber = Subscriber(clock=self.clock, offset_ns=self.clock.offset_ns, env=env)
        self._supervisors = [
            Supervisor(
                kind,
                host=self._host,
                interval_s=interval_s,
                backend=backend,
                offset_ns=self.clock.offset_ns,
                clock=self.clock,
            )
            for kind in ("gpu", "host")
        ]
        if not cmdlines:
            for supervisor in self._supervisors:
                supervisor.tell({"cmdline": False})
        self._cmdlines = cmdlines
        self._env = env
        self._attached: dict[int, Attachment] = {}
        self._unannounced = Unannounced(self._host)
        self._refusals: dict[int, Callable[[str], object]] = {}
        self._not_attached: str | None = None
        self._looks: dict[str, Look] = {}
        self._unseen: dict[str, str] = {}
        self._pids: dict[int, str] = {}
        self._starts: dict[int, int | None] = {}
        self._workers: dict[int, list[int]] = {}
        self._run_pids: dict[str, int] = {}
        self._elsewhere: set[int] = set()
        self._silent: dict[str, int] = {}
        self._closed = False
        self._waking = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)

    def poll(self, timeout_s: float) -> list[AnyRecord]:
        """What publishers and samplers have said, waiting up to `timeout_s` for the first word."""
        if self._closed:
            return []
        poller = zmq.Poller()
        poller.register(self._subscriber.socket, zmq.POLLIN)
        poller.register(self._wake_read, zmq.POLLIN)
        for supervisor in self._supervisors:
            if (descriptor := supervisor.fileno()) >= 0:
                poller.register(descriptor, zmq.POLLIN)
        try:
            ready = dict(poller.poll(round(timeout_s * 1000)))
        except (zmq.ZMQError, OSError):
            return []
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        records: list[AnyRecord] = list(self._subscriber.receive())
        records += self._subscriber.tick()
        now = self.clock()
        for supervisor in self._supervisors:
            records += supervisor.read()
            records += supervisor.tick(now)
        for attachment in list(self._attached.values()):
            records += attachment.poll()
            if attachment.over:
                del self._attached[attachment.pid]
                refused = self._refusals.pop(attachment.pid)
                if attachment.refused is not None:
                    self._not_attached = f"process {attachment.pid} can't be watched: {attachment.refused}"
                    refused(str(attachment.refused))
        records += self._look()
        if (moved := self.clock.moved()) is not None:
            records.append(Event(t=now, kind="clock", label=moved))
        if not self.simulated:
            records += self._unannounced.records(records, self._announced(), now)
        self._follow(records, now)
        return records

    def _announced(self) -> dict[int, int | None]:
        """Processes that speak for themselves, or will, and when they started: those with a card (a container's has
        numbers of its own: it counts once its run is found here), and those whose stacks are sampled."""
        found = {card.pid: card.start for card in self._numbered_here(self._subscriber.known.values())}
        found |= {pid: self._starts.get(pid) for pid, run in self._pids.items() if not self._unannounced.made(run)}
        return found | {pid: one.run.start_ticks for pid, one in self._attached.items()}

    @staticmethod
    def _numbered_here(found: Iterable[cards.Found]) -> Iterator[cards.Card]:
        here = cards.pid_namespace()
        return (one.card for one in found if one.card.pidns in (None, here))

    def _follow(self, records: list[AnyRecord], now: int) -> None:
        """Tell the samplers which processes train and which are their workers."""
        changed = False
        for record in records:
            if isinstance(record, Run):
                pid = self._run_pids.get(record.run_id) or self._pid_here(record)
                if pid is None:
                    continue
                changed |= self._pids.get(pid) != record.run_id
                if record.start_ticks is not None or self._pids.get(pid) != record.run_id:
                    self._starts[pid] = record.start_ticks
                self._pids[pid] = record.run_id
                self._run_pids[record.run_id] = pid
                if pid != record.pid:
                    self._elsewhere.add(pid)  # its workers' numbers are other ones too: they are found as its children
            elif isinstance(record, Loader) and record.run_id in self._run_pids and record.worker_pids is not None:
                pid = self._run_pids[record.run_id]
                if pid not in self._elsewhere:
                    changed |= self._workers.get(pid) != record.worker_pids
                    self._workers[pid] = record.worker_pids
            elif isinstance(record, Event) and record.kind in ("exit", "lost_process") and record.run_id is not None:
                pid = self._run_pids.pop(record.run_id, -1)
                if self._pids.get(pid) != record.run_id:
                    continue  # another run of the same process goes on
                del self._pids[pid]
                self._starts.pop(pid, None)
                changed = True
                self._workers.pop(pid, None)
                self._elsewhere.discard(pid)
        if changed:
            for supervisor in self._supervisors:
                supervisor.tell({"pids": self._pids, "workers": self._workers})
        silent = {found.card.id for found in self._subscriber.silent()}
        self._silent = {run_id: self._silent.get(run_id, now) for run_id in silent}

    def _pid_here(self, run: Run) -> int | None:
        """The process of a run by its number here, which is another one for a run in a container; None where it is not
        known for certain."""
        if run.sampled:
            return run.pid
        directories = [place.path for place in places.reading_places(self._env)]
        card = next(
            (one.card for one in cards.find("run", directories, sweep=False) if one.card.id == run.run_id), None
        )
        foreign = cards.foreign_proc()
        if card is None or card.pidns is None or (card.pidns == cards.pid_namespace() and not foreign):
            return run.pid if run.host == self._host and not foreign else None
        return namespaces.outer_pid(run.pid, card.pidns, card.start)

    def attach(self, pid: int, refused: Callable[[str], object] = lambda _: None) -> None:
        """Watch a process that has no publisher, by samples of its stacks. Raises Refused; where only the attempt shows
        that it can't be, `refused` is told why.

        Only the thread that polls may call this, or whoever has not yet handed the source to one.
        """
        from gputop.samplers.attach.attachment import Attachment
        from gputop.samplers.attach.tool import Refused

        directories = [place.path for place in places.reading_places(self._env)]
        if any(card.pid == pid for card in self._numbered_here(cards.find("run", directories, sweep=False))):
            raise Refused(f"process {pid} has gputop's publisher in it", "watch it with plain `gputop`: it is measured")
        watched = self._announced()
        if pid in watched and Pid(pid, proc.start(pid)).agrees(Pid(pid, watched[pid])):
            raise Refused(f"process {pid} is watched already")
        self._attached[pid] = Attachment(pid, host=self._host, clock=self.clock, cmdline=self._cmdlines)
        self._refusals[pid], self._not_attached = refused, None

    def profile(self, run_id: str, steps: int) -> None:
        """Ask a training to profile its next steps, and look into one of its loader workers meanwhile. Only the thread
        that polls may call this."""
        self._subscriber.request(run_id, "profile", steps=steps)
        self.look_inside(run_id)

    def look_inside(self, run_id: str) -> None:
        """Sample the stacks of the run's busiest loader worker for some seconds; its lines come as a `site` record.
        What stands in the way is told among the warnings. Nothing where it has no workers."""
        from gputop.samplers.attach import loading
        from gputop.samplers.attach.inside import Look
        from gputop.samplers.attach.tool import Refused

        pid = self._run_pids.get(run_id)
        if pid is None or run_id in self._looks:
            return
        self._unseen.pop(run_id, None)
        workers = loading.busiest(self._workers.get(pid, ())) or loading.workers(pid)
        if not workers:
            return
        try:
            self._looks[run_id] = Look(pid, run_id, clock=self.clock, workers=workers)
        except Refused as why:
            self._unseen[run_id] = str(why)

    def _look(self) -> list[AnyRecord]:
        """What the looks into loader workers have found."""
        records: list[AnyRecord] = []
        for run_id, look in list(self._looks.items()):
            records += look.poll()
            if look.over:
                del self._looks[run_id]
            if look.refused is not None:
                self._unseen[run_id] = str(look.refused)
        return records

    def jumped(self, column_ns: int) -> Past | None:
        """Never: what happens now follows what happened."""
        return None

    def transport(self) -> Transport | None:
        """There is only now."""
        return None

    def wake(self) -> None:
        """Make a poll that waits return. Any thread may call this."""
        with self._waking, suppress(OSError):  # a full pipe wakes just as well
            if self._wake_write >= 0:
                os.write(self._wake_write, b"\0")

    def warnings(self) -> list[str]:
        """What went wrong so far."""
        said = [text if count == 1 else f"{text} ({count} times)" for text, count in self._subscriber.warnings.items()]
        if lost := self._subscriber.lost():
            said.append(f"{lost} records were lost on the way to this screen")
        said += [f"no look into a loader worker: {why}" for why in dict.fromkeys(self._unseen.values())]
        now = self.clock()
        for run_id, since in self._silent.items():
            found = self._subscriber.known.get(run_id)
            if found is not None and now - since > SILENT_AFTER_NS:
                said.append(f"the training in process {found.card.pid} is there but does not answer; is it stopped?")
        return said

    def silent_pids(self) -> list[int]:
        """Processes that have announced a training but have not said a word to this viewer."""
        return sorted(found.card.pid for found in self._subscriber.silent())

    def waiting(self) -> str | None:
        """What is awaited; why the process that was to be watched can't be."""
        return (
            self._not_attached
            or "no training found yet: start one with  gputop run -- python train.py  or add  gputop.watch()  to it"
        )

    def done(self) -> bool:
        """Never: something may always begin."""
        return self._closed

    def close(self) -> None:
        """Let go of everything at once."""
        self._closed = True
        for attachment in self._attached.values():
            attachment.close()
        for look in self._looks.values():
            look.close()
        for supervisor in self._supervisors:
            supervisor.close()
        self._subscriber.close()
        with self._waking:
            for descriptor in (self._wake_read, self._wake_write):
                if descriptor >= 0:
                    os.close(descriptor)
            self._wake_read = self._wake_write = -1
