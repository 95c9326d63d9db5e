"""The way of nearly every step, read in one go: a batch of the same loader, and marks that nest.

A fast loop reads its notes in one of its own steps, where none of this is in the processor's caches: what counts is how
much code and data it goes through.

Does what the step clock does with the same entries one by one, with its state in local variables; at the first entry
that is anything else it puts the state back and leaves that entry to the step clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gputop.publisher.counted import begin_counted, passed, told_again
from gputop.publisher.entries import (
    ARRIVE,
    BACKWARD,
    BEGIN,
    COUNT,
    END,
    OPTIMIZER,
    OWN_TIME,
    QUEUE,
    REQUEST,
    RESUME,
    Entry,
)
from gputop.publisher.ledger import CPU_FROM_NS, TELLING
from gputop.publisher.marks import note_child, same_extent
from gputop.publisher.segment import LOOSE, Segment

if TYPE_CHECKING:
    from gputop.publisher.tape import Tape

Open = tuple[int, str, str, int]
"""A mark that is open: the code that began it, its name, what time goes to when it ends, when it began."""


def read_plain(tape: Tape, entries: list[Entry], at: int) -> int:
    """Read from `entries[at]`, where a step begins, as far as all is plain; returns where the first entry is that is
    not."""
    ledger, loop = tape.ledger, tape.ledger.loop
    seg = loop.seg
    if seg is None or seg is not loop.train or loop.regions is not None or ledger.asked is not None or ledger._turns:
        return at
    opens: list[Open] = []
    while at < len(entries):
        resumes = entries[at][0] == RESUME
        begun = _resumed(tape, entries[at]) if resumes else _followed(tape, seg, entries, at)
        if begun is None:
            break
        seg, now = begun
        at = _read_marks(tape, seg, entries, at + (1 if resumes else 2), now, opens)
        if opens:
            break
    _put_back(tape, seg, opens)
    return at


def _resumed(tape: Tape, entry: Entry) -> tuple[Segment, int] | None:
    """The segment of a step told in detail after counted ones, and when its batch came; None where not plain."""
    _, (source, row, samples), now = entry
    loop = tape.ledger.loop
    seg = told_again(loop, now, samples) if passed(loop, source, row) else None
    if seg is None:
        return None
    tape.seg, tape.cpu = seg, None
    return seg, now


def _followed(tape: Tape, train: Segment, entries: list[Entry], at: int) -> tuple[Segment, int] | None:
    """The segment of the step that a request and the batch's arrival begin, and when; None where that is not plain."""
    if at + 1 >= len(entries):
        return None
    op, source, asked = entries[at]
    arrived, samples, now = entries[at + 1]
    if op != REQUEST or arrived not in (ARRIVE, COUNT):
        return None
    loop = tape.ledger.loop
    if train.top != LOOSE:  # what no mark covers is dropped with the segment's end
        train.pass_time(asked)
    loop.cpu_now = tape.cpu if asked - train.start > CPU_FROM_NS else None
    seg = loop.follow(train, source, asked)
    if seg is None:
        return None
    tape.cpu = None
    seg.batches = seg.marks = 1
    seg.phases["data"] = now - asked
    seg.arrived = seg.since = now
    if arrived == COUNT:
        begin_counted(loop, seg)
        tape.seg = None
    else:
        seg.samples = samples
        tape.seg = seg
    return seg, now


def _read_marks(tape: Tape, seg: Segment, entries: list[Entry], at: int, since: int, opens: list[Open]) -> int:
    """Read the marks of a step. Returns where the next request is, or else something that is not plain."""
    ledger = tape.ledger
    phases = seg.phases
    marks, loose, top, name = seg.marks, 0, LOOSE, ""
    what: Any
    for at in range(at, len(entries)):  # noqa: B020, PLR1704
        op, what, now = entries[at]
        if op == BEGIN:
            name = what
            if name in TELLING:
                ledger._tell(name, now)
        elif op == BACKWARD:
            name = "backward"
            seg.source.trains = seg.work = True
        elif op == OPTIMIZER:
            name = "optimizer"
            seg.source.trains = seg.work = seg.optimizer = True
        elif opens and op == opens[-1][0] + 1 and (op != END or what == opens[-1][1]) and what != "checkpoint":
            phases[top] = phases.get(top, 0) + now - since
            since = now
            _, name, top, start = opens.pop()
            if op != END:
                if opens:
                    note_child(seg, len(opens), name, start, now)
            elif seg.child is not None:
                same_extent(seg, len(opens) + 1, name, start, now)
            continue
        elif op == QUEUE:
            seg.say(**what)
            continue
        elif op == OWN_TIME and not opens and what >= since:
            loose += what - since
            phases["self"] = phases.get("self", 0) + now - what
            since = now
            marks += 1
            continue
        else:
            break
        if top == LOOSE:
            loose += now - since
        else:
            phases[top] = phases.get(top, 0) + now - since
        since = now
        if op != BEGIN:
            if loose and op == BACKWARD and not ledger._forward_said:
                phases["forward"] = phases.get("forward", 0) + loose
            loose = 0
        opens.append((op, name, top, now))
        top = name
        marks += 1
    else:
        at = len(entries)
    seg.since, seg.top, seg.marks = since, top, marks
    if loose:
        phases[LOOSE] = loose
    return at


def _put_back(tape: Tape, seg: Segment, opens: list[Open]) -> None:
    """Tell the step clock of the marks that are still open."""
    for op, name, below, start in opens:
        seg.stack.append(below)
        token = seg, len(seg.stack), start
        if op == BACKWARD:
            tape.backward = token
        elif op == OPTIMIZER:
            tape.optimizers.append(token)
        else:
            tape.phases.setdefault(name, []).append(token)
