"""Notes are read in rows, with a short way for plain steps: it must tell what the long way tells."""

from __future__ import annotations

import signal
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gputop
from gputop.publisher import core
from gputop.publisher.entries import (
    ARRIVE,
    BACKWARD,
    BACKWARD_DONE,
    BEGIN,
    CLOSE,
    CONSTRUCT,
    COPIED,
    CPU,
    END,
    EXCHANGE,
    FAIL,
    OPTIMIZER,
    OPTIMIZER_DONE,
    OWN_COST,
    OWN_TIME,
    QUEUE,
    REQUEST,
    SAVE,
    SAVED,
    SYNCED,
    Entry,
)
from gputop.publisher.ledger import Ledger
from gputop.publisher.segment import Segment, Source
from gputop.publisher.tape import OPS, Tape

NAMES = ("forward", "backward", "optimizer", "mine", "sync", "checkpoint")


class Read:
    """A step clock that reads a tape, and all that it tells."""

    def __init__(self, *, knows_backward: bool) -> None:
        self.steps: list[Segment] = []
        self.moments: list[tuple[str, int, int, str | None]] = []
        self.tape = Tape(lambda *moment: self.moments.append(moment))
        self.tape.ledger = Ledger(
            self.steps.append, lambda *moment: self.moments.append(moment), cpu_clock=self.tape.cpu_clock
        )
        self.tape.ledger.loop.knows_backward = knows_backward

    def told(self, end: int) -> list[Any]:
        self.tape.ledger.finish(end)
        for seg in self.steps:
            seg.settle()
        return [*[vars_of(seg) for seg in self.steps], self.moments]


def vars_of(seg: Segment) -> tuple[Any, ...]:
    return (
        seg.start, seg.end, {name: ns for name, ns in seg.phases.items() if ns}, seg.n, seg.batches, seg.samples,
        seg.work, seg.optimizer, seg.first, seg.partial, seg.kind, seg.cpu, seg.extra, seg.sites, seg.source.loader_id,
    )  # fmt: skip


PLAIN_STEP = ["request", "arrive", "backward", "backward_done", "optimizer", "optimizer_done"]
WORDS = [
    *PLAIN_STEP, "begin", "end", "queue", "cpu", "fail", "close", "construct", "copied", "synced", "save", "saved",
    "cost", "spent", "other", "declared", "exchange",
]  # fmt: skip
PARTS = st.one_of(
    st.just(PLAIN_STEP),
    st.just(["request", "arrive", "begin", "end", "begin", "backward", "backward_done", "end", "begin", "end"]),
    st.just(["cpu", "request", "arrive", "queue", "backward", "backward_done"]),
    st.just(["request", "arrive", "backward", "exchange", "backward_done", "optimizer", "optimizer_done"]),
    st.just(["declared", "arrive", "begin", "end", "begin", "end"]),
    st.lists(st.sampled_from(WORDS), min_size=1, max_size=4),
)


def entries_of(words: list[str], lengths: list[int], names: list[str]) -> list[Entry]:
    """The words as entries of one thread; lengths in 0.3 ms, names of phases in turn."""
    sources = {"request": Source(0), "other": Source(1), "declared": Source(2, declared=True)}
    out: list[Entry] = []
    now = opened = 0
    stack: list[str] = []
    for i, word in enumerate(words):
        now += lengths[i % len(lengths)] * 300_000
        what: Any = None
        if word in sources:
            op, what = REQUEST, sources[word]
        elif word == "arrive":
            op, what = ARRIVE, 4 if i % 3 else None
        elif word == "begin":
            stack.append(names[opened % len(names)])
            opened += 1
            op, what = BEGIN, stack[-1]
        elif word == "end":
            op, what = END, stack.pop() if stack else "mine"
        else:
            op, what = {
                "backward": (BACKWARD, None), "backward_done": (BACKWARD_DONE, None), "optimizer": (OPTIMIZER, 7),
                "optimizer_done": (OPTIMIZER_DONE, now // 3), "queue": (QUEUE, {"ready_batches": i}),
                "cpu": (CPU, now // 2), "fail": (FAIL, now // 2), "close": (CLOSE, sources["request"]),
                "construct": (CONSTRUCT, sources["request"]), "copied": (COPIED, (now - 1000, 64, 64, 0)),
                "synced": (SYNCED, ("a.py:1", ".item()", now - 1000, 4)), "save": (SAVE, None), "saved": (SAVED, None),
                "exchange": (EXCHANGE, None), "cost": (OWN_COST, 2000), "spent": (OWN_TIME, now - 2000),
            }[word]  # fmt: skip
        out.append((op, what, now))
    return out


@settings(max_examples=300, deadline=None)
@given(
    parts=st.lists(PARTS, min_size=1, max_size=40),
    lengths=st.lists(st.integers(1, 12), min_size=1, max_size=9),
    names=st.lists(st.sampled_from(NAMES), min_size=1, max_size=5),
    rows=st.lists(st.integers(1, 60), min_size=1, max_size=9),
    knows=st.booleans(),
)
def test_rows_tell_what_entry_by_entry_tells(
    parts: list[list[str]], lengths: list[int], names: list[str], rows: list[int], knows: bool
) -> None:
    words = [word for part in parts for word in part]
    singly, inrows = Read(knows_backward=knows), Read(knows_backward=knows)
    entries = entries_of(words, lengths, names)
    for op, what, now in entries:
        OPS[op](singly.tape, what, now)
    inrows.tape.entries.extend(entries_of(words, lengths, names))
    turn = 0
    while inrows.tape.read(rows[turn % len(rows)]):
        turn += 1
    end = entries[-1][2] + 1_000_000
    assert inrows.told(end) == singly.told(end)


def test_plain_steps_go_the_short_way() -> None:
    read = Read(knows_backward=True)
    asked: list[int] = []
    plainly = read.tape.ledger.request
    read.tape.ledger.request = lambda *a, **k: asked.append(1) or plainly(*a, **k)  # type: ignore[method-assign]
    read.tape.entries.extend(entries_of(PLAIN_STEP * 50, [1], ["mine"]))
    read.tape.read(10_000)
    assert len(read.steps) == 49
    assert len(asked) == 1, "only the first was taken entry by entry"


def test_a_loop_faster_than_the_sender_reads_its_own_tape() -> None:
    for i, _ in enumerate(gputop.steps(range(20_000))):
        with gputop.phase("forward"):
            pass
        if i % 1000 == 0 and core.current is not None:
            assert len(core.current.entries) < 2_000
    assert core.current is not None
    ledger = core.current.ledger
    assert ledger.loop.steps >= 19_999
    assert not core.current.entries
    core.current.stop()


def test_a_signal_handler_that_marks_between_two_marks_breaks_nothing() -> None:
    def handler(*_: object) -> None:
        with gputop.phase("handler"):
            pass

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for i, _ in enumerate(gputop.steps(range(2_000))):
            with gputop.phase("forward"):
                if i % 10 == 0:
                    signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert core.current is not None
    assert core.current.active
    assert core.current.ledger.loop.steps >= 1_999
    core.current.stop()


def test_a_run_that_can_not_start_its_thread_trains_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refused)
    assert list(gputop.steps([1, 2, 3])) == [1, 2, 3]
    assert any("can't start new thread" in record.getMessage() for record in caplog.records)
