"""What the training thread notes, and nothing more: marks and their times, which the step clock reads later, in order.

Entries are read by the sending thread, or at once on the training thread itself: before the process is a run, and
where a device clock has to put its own marks into the device's queue just then.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from gputop.publisher import counted
from gputop.publisher.entries import REQUEST, RESUME, Entry
from gputop.publisher.ledger import Ledger
from gputop.publisher.marks import Token
from gputop.publisher.plain import read_plain
from gputop.publisher.segment import Segment, Source
from gputop.publisher.tally import Row

MAX_OPEN = 8
"""Optimizer steps that may be open: those that raised never came back for theirs."""

MAX_PHASES = 256
"""Names whose list of open marks is kept for the next time."""

LOCK_WAIT_S = 0.2
"""How long the end of a run may wait for the sending thread to have read what it is reading."""


class Tape:
    """The entries of one training thread, and the marks that are open in the step clock which reads them."""

    __slots__ = (
        "backward", "cpu", "entries", "exchange", "ledger", "lock", "moment", "optimizers", "phases", "saves", "seg",
    )  # fmt: skip

    def __init__(self, moment: Callable[[str, int, int, str | None], None]) -> None:
        self.entries: deque[Entry] = deque()
        self.lock = threading.Lock()
        self.ledger: Ledger
        self.moment = moment
        self.cpu: int | None = None
        self.seg: Segment | None = None
        self.backward: Token | None = None
        self.exchange: Token | None = None
        self.optimizers: list[Token | None] = []
        self.saves: list[Token | None] = []
        self.phases: dict[str, list[Token | None]] = {}

    def cpu_clock(self) -> int | None:
        """CPU time of the training thread when it made the entry being read; None where it didn't ask."""
        return self.cpu

    def read(self, limit: int) -> bool:
        """Let the step clock read up to `limit` entries; whether there are more. The lock is held. May raise."""
        take = self.entries.popleft
        row = [take() for _ in range(min(limit, len(self.entries)))]
        at = 0
        while at < len(row):
            op, what, now = row[at]
            if op in (REQUEST, RESUME):
                went = read_plain(self, row, at)
                if went > at:
                    at = went
                    continue
            OPS[op](self, what, now)
            at += 1
        return bool(self.entries)


# Requests for batches


def cpu(tape: Tape, ns: int, now: int) -> None:
    """The thread's CPU time at the request that follows."""
    tape.cpu = ns


def request(tape: Tape, source: Source, now: int) -> None:
    """A batch is asked for."""
    tape.ledger.request(source, now)
    tape.cpu = None


def construct(tape: Tape, source: Source, now: int) -> None:
    """A pass over a loader begins."""
    tape.ledger.request(source, now, construct=True)
    tape.cpu = None


def arrive(tape: Tape, samples: int | None, now: int) -> None:
    """The batch, or the iterator, is there."""
    tape.seg = tape.ledger.arrive(now, samples)


def queue(tape: Tape, fields: dict[str, Any], now: int) -> None:
    """What the loader's queue looked like when the batch was asked for."""
    if tape.seg is not None:
        tape.seg.say(**fields)


def fail(tape: Tape, ns: int | None, now: int) -> None:
    """No batch came. `ns` is the thread's CPU time."""
    tape.cpu = ns
    tape.ledger.fail(now)
    tape.cpu = None


def close(tape: Tape, source: Source, now: int) -> None:
    """A pass is over."""
    tape.ledger.close(source, now)


# What the hooks see


def backward(tape: Tape, _: None, now: int) -> None:
    """A backward begins."""
    tape.backward = tape.ledger.backward(now)


def backward_done(tape: Tape, _: None, now: int) -> None:
    """It has ended, or raised."""
    token, tape.backward = tape.backward, None
    waited, tape.exchange = tape.exchange, None
    if waited is not None:
        tape.ledger.done(waited, "comm", now)
    tape.ledger.done(token, "backward", now, 0 if waited is None else now - waited[2])


def exchange(tape: Tape, _: None, now: int) -> None:
    """All gradients are computed: what is left of backward waits for the other ranks' part of their sums."""
    if tape.backward is not None and tape.exchange is None:
        tape.exchange = tape.ledger.exchange(now)


def optimizer(tape: Tape, which: int, now: int) -> None:
    """An optimizer's step begins."""
    tokens = tape.optimizers
    if len(tokens) > MAX_OPEN:
        tokens.clear()
    tokens.append(tape.ledger.optimizer(now, which))


def optimizer_done(tape: Tape, ns: int | None, now: int) -> None:
    """It has ended. `ns` is the thread's CPU time, told where no loader is asked: the next step may begin here."""
    tokens = tape.optimizers
    if tokens:
        tape.cpu = ns
        tape.ledger.done(tokens.pop(), "optimizer", now)
        tape.cpu = None


def save(tape: Tape, _: None, now: int) -> None:
    """A checkpoint begins."""
    tape.saves.append(tape.ledger.save(now))


def saved(tape: Tape, _: None, now: int) -> None:
    """It is written."""
    if tape.saves:
        tape.ledger.done(tape.saves.pop(), "checkpoint", now)


def copied(tape: Tape, what: tuple[int, int, int, int], now: int) -> None:
    """A copy to the device was made: since when, how many bytes, how many pageable, how many in a call that waits."""
    start, nbytes, pageable, blocking = what
    tape.ledger.copied(start, now, nbytes, pageable, blocking)


def synced(tape: Tape, what: tuple[str, str, int, int], now: int) -> None:
    """A value was read back: where, by what call, since when, how many bytes."""
    site, call, start, nbytes = what
    tape.ledger.synced(site, call, start, now, nbytes)


# Phases that the script names


def begin(tape: Tape, name: str, now: int) -> None:
    """A phase begins."""
    token = tape.ledger.begin_phase(name, now)
    tokens = tape.phases.get(name)
    if tokens is None:
        tape.phases[name] = [token]
    else:
        tokens.append(token)


def end(tape: Tape, name: str, now: int) -> None:
    """A phase ends."""
    token = _ended(tape, name)
    tape.ledger.end_phase(name, token, now)
    if token is not None and name == "checkpoint":
        tape.moment("checkpoint", token[2], now - token[2], None)


def end_read(tape: Tape, site: str, now: int) -> None:
    """The phase of reading device values ends, at a line of the script."""
    tape.ledger.end_phase("sync", _ended(tape, "sync"), now, site)


def _ended(tape: Tape, name: str) -> Token | None:
    tokens = tape.phases.get(name)
    if not tokens:
        return None
    token = tokens.pop()
    if not tokens and len(tape.phases) > MAX_PHASES:
        del tape.phases[name]
    return token


# What all this costs


def own_cost(tape: Tape, ns: int, now: int) -> None:
    """What a mark, begin and end, costs the training thread."""
    tape.ledger.loop.mark_ns = ns


def own_time(tape: Tape, start: int, now: int) -> None:
    """The training thread has read the tape itself since `start`."""
    tape.ledger.span("self", start, now)


def say(tape: Tape, fields: dict[str, Any], now: int) -> None:
    """What there is to say of the step that is open, and of the pass it belongs to."""
    seg = tape.ledger.loop.seg
    if seg is None:
        return
    more = dict(fields)
    if "epoch" in more:
        seg.source.epoch = more.pop("epoch")
        seg.first = True
    if "samples" in more:
        seg.samples = more.pop("samples")
    if more:
        seg.say(**more)


def batch(tape: Tape, what: tuple[Source, int | None, int | None, bool | None], now: int) -> None:
    """A training framework has a batch: of which pass, since when it has been free, samples, whether weights change."""
    source, since, samples, updates = what
    tape.ledger.given(source, since, now, samples, updates)


def rest(tape: Tape, cut_short: bool, now: int) -> None:
    """The training pauses, or is over: no step is open until it goes on."""
    tape.ledger.rest(now, cut_short=cut_short)


# Steps of which only the time is noted


def count(tape: Tape, _: None, now: int) -> None:
    """The batch is there, and from here on only the step's time is noted."""
    counted.count(tape.ledger, now)
    tape.seg = None


def ticks(tape: Tape, what: tuple[Source, Row], now: int) -> None:
    """A row of such steps is over, all of which have trained, and the next such one has begun."""
    tape.cpu = None
    counted.ticks(tape.ledger, *what)


def resume(tape: Tape, what: tuple[Source, Row, int | None], now: int) -> None:
    """A row of such steps is over, and the batch is there of a step of which all is noted again."""
    source, row, samples = what
    tape.seg = counted.resume(tape.ledger, source, row, now, samples)
    tape.cpu = None


def turn(tape: Tape, source: Source, now: int) -> None:
    """Such a step is over, and one begins of which all is noted."""
    tape.cpu = None
    counted.turn(tape.ledger, source, now)


def worked(tape: Tape, trained: bool, now: int) -> None:
    """All is noted again; whether the step has trained so far."""
    counted.worked(tape.ledger, now, trained=trained)


OPS: list[Callable[[Tape, Any, int], None]] = [
    cpu,
    request,
    construct,
    arrive,
    queue,
    fail,
    close,
    backward,
    backward_done,
    optimizer,
    optimizer_done,
    save,
    saved,
    copied,
    synced,
    begin,
    end,
    end_read,
    own_cost,
    own_time,
    say,
    batch,
    rest,
    count,
    ticks,
    turn,
    worked,
    exchange,
    resume,
]
"""What reads each kind of entry, by its number."""
