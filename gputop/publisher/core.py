"""The publisher of this process: armed early, a run only from its own first sign of training on, undone by `stop`."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from threading import get_ident
from typing import Any

import msgspec

from gputop.publisher import dataset, detail, identity, tape
from gputop.publisher.closure import Closure
from gputop.publisher.counting import Counting, Sums
from gputop.publisher.detail import NO_THREAD, Decided
from gputop.publisher.device import DeviceClock
from gputop.publisher.entries import CPU_FROM_NS, REST, Entry
from gputop.publisher.ledger import Ledger
from gputop.publisher.loading import content, loader_record
from gputop.publisher.numbers import Numbers
from gputop.publisher.oath import confess
from gputop.publisher.process import exit_label, in_loader_worker
from gputop.publisher.regions import Regions
from gputop.publisher.ring import Ring
from gputop.publisher.segment import Segment, Source
from gputop.publisher.sender import Sender, exit_event
from gputop.publisher.shapes import Shapes
from gputop.publisher.tally import Tally
from gputop.publisher.tape import Tape
from gputop.records import Event, Record, Run

UNDECIDED_HELD = 64
"""Steps kept of a process that is no run yet: batches looked at before the training."""

Undo = Callable[[], None]


class Publisher:
    """All that gputop keeps in a training process. One a process; hooks and the public functions share it."""

    # What is read at every mark has a slot, found sooner than an entry of a large dict.
    __slots__ = (
        "__dict__", "asked_at", "asking", "closure", "entries", "every", "live", "noting", "put", "reads", "requests",
        "resumes_ns", "skip", "tally", "thread", "told", "worked",
    )  # fmt: skip

    def __init__(self, device: DeviceClock | None = None) -> None:
        self.offset_ns = identity.clock_offset_ns()
        self.device = device
        self.undo: list[Undo] = []
        self.hooks: list[str] = []
        self.active = True
        self.armed = False
        self.compiled = False
        self.exchanges = True
        """Whether the end of backward that waits for other ranks is told apart."""
        self.named: dict[str, Any] = {}
        self.each_second: list[Callable[[int], None]] = []
        """What the sending thread calls once a second, with the monotonic time."""
        self.modules: list[weakref.ref[Any]] = []
        """Modules of whose parameters optimizers were made."""
        self.autocast: bool | None = None
        """Whether forward runs in mixed precision, once a backward has shown it."""
        self.cpu_operators: list[str] = []
        """Operators that ran on the CPU, as that backward has shown."""
        self.moved: set[int] | None = set()
        """Bytes of each copy to the device since the first batch, until the model is described."""
        self._reset()

    def _reset(self) -> None:
        """The state of a process that has done nothing yet: at the start, and in the child of a fork."""
        self.thread = threading.main_thread().ident or get_ident()
        self.run_id = ""
        self.script = ""
        self._start_ns = 0
        self.started = False
        self.live = NO_THREAD
        """The training thread, once this process is a run and where the step is noted in detail."""
        self.noting = self.thread
        """The training thread, where the step is noted in detail."""
        self.every = 1
        """Each how-many-eth step is told in detail, on average."""
        self.skip = 0
        """While only the time of steps is noted: requests until all is noted again."""
        self.told: Source | None = None
        """The pass whose steps these are."""
        self.worked = False
        """A sign of training has come in such a step."""
        self.tally = Tally(self.offset_ns)
        """Such steps that are not handed over yet."""
        self.reads = False
        """The training thread reads its own notes, a few at a time."""
        self.decided = Decided()
        self.facts: dict[str, Any] = {}
        self.more: dict[str, Any] = {}
        self.ring = Ring(held=0, inbox=UNDECIDED_HELD)
        self.sender: Sender | None = None
        self.numbers = Numbers()
        self.passes: dict[int, int] = {}
        self.asking = False
        """A batch has been asked for and is not there yet: what else is asked for meanwhile is part of that."""
        self.asked_at = 0
        self.closure: Closure | None = None
        """That of an optimizer step in which no backward has ended yet, unless the step has raised."""
        self.saving = False
        """A checkpoint is being written: what else is saved meanwhile is part of it."""
        self.requests = 0
        self.shapes = Shapes()
        self._new_ledger()

    def _new_ledger(self) -> None:
        old: Tape | None = getattr(self, "tape", None)
        self.tape = Tape(self.note)
        regions = Regions(self.device) if self.device is not None else None
        ledger = self.tape.ledger = Ledger(
            self._emit, self.note, cpu_clock=self.tape.cpu_clock, regions=regions,
            counting=Counting(self._emit, self.offset_ns),
        )  # fmt: skip
        ledger.loop.knows_backward = old is not None and old.ledger.loop.knows_backward
        self._choose_put()

    @property
    def ledger(self) -> Ledger:
        """The step clock, after it has read all that the training thread has noted so far."""
        self.catch_up()
        return self.tape.ledger

    # The tape

    def _choose_put(self) -> None:
        """Whether entries wait for the sending thread, or are read on the spot: a device's marks can't wait."""
        self.entries: deque[Entry] = self.tape.entries
        self.resumes_ns = 0 if self.tape.ledger.loop.regions is not None else CPU_FROM_NS
        """Counted steps shorter than this are followed without further ado by one told in detail; of the others it has
        to be asked at once what the CPU or the device did up to there."""
        self.put: Callable[[Entry], None] = self.plain_put()

    def plain_put(self) -> Callable[[Entry], None]:
        """What takes entries while no profile is made."""
        if self.tape.ledger.loop.regions is not None:
            return self._read_timed
        return self.entries.append if self.started else self._read_at_once

    def _read_at_once(self, entry: Entry) -> None:
        op, what, now = entry
        try:
            tape.OPS[op](self.tape, what, now)
        except Exception as error:
            self.fault("steps", error)

    def _read_timed(self, entry: Entry) -> None:
        """What a device's marks take is most of what such a step costs."""
        start = time.monotonic_ns()
        self._read_at_once(entry)
        self.decided.spent_ns += time.monotonic_ns() - start

    def read_tape(self, limit: int) -> bool:
        """Let the step clock read up to `limit` entries, if no other thread does; whether there are more."""
        one = self.tape
        if not one.entries or not one.lock.acquire(blocking=False):
            return False
        try:
            return self._read(one, limit)
        finally:
            one.lock.release()

    def catch_up(self, then: Callable[[Ledger], None] | None = None) -> None:
        """Let it read all there is; no other thread reads on before `then` is done."""
        one = self.tape
        if one.lock.acquire(timeout=tape.LOCK_WAIT_S):
            try:
                while self._read(one, len(one.entries)):
                    continue
                if then is not None:
                    then(one.ledger)
            finally:
                one.lock.release()

    def _read(self, one: Tape, limit: int) -> bool:
        try:
            return one.read(limit)
        except Exception as error:
            one.entries.clear()
            self.fault("steps", error)
            return False

    def use_device(self, device: DeviceClock | None) -> None:
        """Time this device from now on, unless one is timed already or the training has begun."""
        if device is not None and self.device is None and not self.started:
            self.device = device
            self.ledger.loop.regions = Regions(device)
            self._choose_put()

    # What the hooks and the public functions call

    def mine(self) -> bool:
        """Whether this is the training thread of a publisher that still watches."""
        return get_ident() == self.thread

    def trains(self) -> bool:
        """A sign of training on this thread: True when its marks count. The first one makes the process a run."""
        if not self.active:
            return False
        if not self.started:
            if in_loader_worker():
                return False
            try:
                self._bind(get_ident())
                self.begin_run()
            except Exception as error:
                if threading.main_thread().is_alive():
                    self.fault("run", error)
                else:  # an exit handler trains: Python 3.12 starts no thread any more, and there is nobody to warn
                    self._watch_no_more()
        if self.skip and get_ident() == self.thread:
            self.worked = True
        return get_ident() == self.noting

    def profiles(self) -> bool:
        """Whether a profile is being made, or waits for its first step."""
        return self.sender is not None and self.sender.profiling.wanted

    def _bind(self, thread: int) -> None:
        """The thread that trains, where it is not the main one. What the main thread did before counts no more."""
        if thread != self.thread:
            self.thread = self.noting = thread
            self._new_ledger()

    def begin_run(self) -> None:
        """From now on this process is a run: it gets a name and the thread that sends."""
        self.started = True
        self.live = self.thread
        self.run_id = identity.new_run_id()
        self.script = identity.script()
        self._start_ns = time.time_ns()
        earlier = self.ring.inbox
        self.ring = Ring()
        self.learn_device()
        self.ring.put(self.describe())
        for name, fact in self.facts.items():
            self.facts[name] = named = msgspec.structs.replace(fact, run_id=self.run_id)
            self.ring.put(named)
        self.ring.inbox.extend(earlier)
        self.sender = Sender(self)
        self.ring.wake = self.sender.wake.set
        self._choose_put()
        self.sender.thread.start()
        _end_with_multiprocessing()

    def say(self, record: Record, fact: str) -> None:
        """Put a record out, and keep it under the name `fact` to be told to each viewer that comes later."""
        self.facts[fact] = record
        if self.started:
            self.ring.put(record)

    def describe(self) -> Run:
        """The run as known now."""
        return identity.describe(
            self.run_id, self._start_ns, self.offset_ns, {"hooks": self.hooks or None, **self.more}
        )

    def learn(self, **fields: Any) -> None:
        """Fields of the `run` record that are known only now; others are passed over."""
        fields = {name: value for name, value in fields.items() if name in Run.__struct_fields__}
        if any(self.more.get(name) != value for name, value in fields.items()):
            self.more.update(fields)
            if self.started:
                self.ring.put(self.describe())

    def note(self, kind: str, start: int, duration: int, label: str | None) -> None:
        """A moment worth a mark on the time axis; `start` is monotonic."""
        if not self.started:
            return
        self.ring.put(
            Event(
                t=self.to_epoch(start),
                kind=kind,
                run_id=self.run_id,
                label=label,
                dur_ns=duration or None,
            )
        )

    def rest(self, *, cut_short: bool = False) -> None:
        """The training pauses, or is over: what follows in this thread, until it goes on, is no part of a step."""
        if self.started and self.mine():
            detail.unusual(self)
            self.put((REST, cut_short, time.monotonic_ns()))

    def learn_pace(self) -> None:
        """Say how many steps are told in detail, where that has changed. For the sending thread."""
        if self.every > 1 or "detail_every" in self.more:
            self.learn(detail_every=self.every)

    def end_second(self, now: int) -> None:
        """Steps that were only counted go out, where no other step ends their second. For the sending thread."""
        one = self.tape
        if one.lock.acquire(blocking=False):
            try:
                with self.tally.lock:
                    detail.take_over(self, now)
                    if one.ledger.loop.counting is not None:
                        one.ledger.loop.counting.flush(now)
            finally:
                one.lock.release()

    @property
    def steps(self) -> int:
        """Training steps so far, but for those noted and not yet read."""
        return self.tape.ledger.loop.steps + self.tally.steps

    def open_phase(self) -> tuple[str, int] | None:
        """The innermost open phase and since when time goes to it; None outside of steps. For any thread to ask."""
        if self.skip and self.asking:
            return "data", self.asked_at
        phase = self.tape.ledger.open_phase()
        return (phase[0], max(phase[1], self.tally.last)) if phase is not None and self.skip else phase

    def to_epoch(self, monotonic_ns: int) -> int:
        """Epoch time of a monotonic one."""
        return monotonic_ns + self.offset_ns

    def fault(self, where: str, error: BaseException) -> None:
        """Something of the publisher's own broke: say so once, watch no more."""
        self._watch_no_more()
        confess(where, error)

    def _watch_no_more(self) -> None:
        self.active = False
        if self.sender is not None:
            self.sender.profiling.leave()
        self.skip, self.every = 0, 1
        self.thread = self.live = self.noting = NO_THREAD

    # Loaders

    def new_pass(self, loader: Any, *, declared: bool = False) -> Source:
        """A pass over a loader begins."""
        detail.unusual(self)
        if self.started:
            self.learn_device()
        number = self.numbers.of(loader)
        epoch = self.passes.get(number, -1) + 1
        self.passes[number] = epoch
        return Source(number, epoch, declared=declared)

    def describe_loader(self, loader: Any, source: Source, worker_pids: list[int] | None) -> None:
        """Put out a loader's configuration and its workers, where they have changed."""
        key = f"loader {source.loader_id}"
        known = self.facts.get(key)
        if known is not None:
            place = dataset.Place(known.dataset_path_fs, known.dataset_disk)
        else:
            place = dataset.place(getattr(loader, "dataset", None))
        record = loader_record(self.run_id, time.time_ns(), loader, source, worker_pids, place)
        if content(known) != content(record):
            self.say(record, key)

    # Steps

    def _emit(self, steps: Segment | Sums) -> None:
        self.ring.put(steps)

    def learn_device(self) -> None:
        """What is known of the device by now; the GPU only once the script itself has initialised it."""
        try:
            if self.device is not None:
                self.learn(**self.device.identity())
        except Exception as error:
            confess("device", error)

    # The end

    def stop(self) -> None:
        """Undo all: hooks restored, the run ended, the thread gone. Watching again starts a new run."""
        try:
            for undo in reversed(self.undo):
                undo()
            self.undo.clear()
            self._end(None)
        except Exception as error:
            confess("stop", error)
        self._watch_no_more()

    def end_of_process(self) -> None:
        """At exit: the open step as it stands, and a last word."""
        try:
            self._end(exit_label())
        except Exception as error:
            confess("exit", error)

    def _end(self, label: str | None) -> None:
        sender, self.sender = self.sender, None
        if sender is None:
            return
        sender.profiling.leave()
        now = time.monotonic_ns()
        if get_ident() == self.thread:
            detail.in_detail(self, now)
            self.tape.cpu = time.thread_time_ns()
        else:
            detail.hand_over(self)
        self._watch_no_more()  # now, since another thread may still be training
        self.ring.make_room()
        self.catch_up(lambda ledger: ledger.finish(now))
        self.ring.put(exit_event(self.to_epoch(now), self.run_id, label))
        sender.leave()

    def after_fork(self) -> None:
        """In the child of a fork: nothing inherited is used again, and nothing of it is freed here."""
        _graves.append((self.sender, self.ring, self.tape))
        self._reset()


_graves: list[Any] = []
"""What a forked child inherited: sockets and threads of its parent, which must not be closed here."""

current: Publisher | None = None
"""The publisher of this process; the one global there is."""


def publisher(device: DeviceClock | None = None) -> Publisher:
    """The publisher of this process, made when there is none that watches."""
    global current  # noqa: PLW0603
    if current is None or not current.active:
        first = current is None
        current = Publisher(device)
        if first:
            atexit.register(_at_exit)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_in_child)
    else:
        current.use_device(device)
    return current


def _end_with_multiprocessing() -> None:
    """A child of multiprocessing (a rank of mp.spawn) leaves without atexit: its own finalizers say goodbye there."""
    util, process = sys.modules.get("multiprocessing.util"), sys.modules.get("multiprocessing.process")
    if util is not None and process is not None and process.parent_process() is not None:
        util.Finalize(None, _at_exit, exitpriority=0)


def _at_exit() -> None:
    if current is not None:
        current.end_of_process()


def _in_child() -> None:
    if current is not None:
        try:
            current.after_fork()
        except Exception as error:
            confess("fork", error)
