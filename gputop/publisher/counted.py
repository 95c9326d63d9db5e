"""Steps of which only the time was noted, as the step clock reads of them: one segment, begun anew after each row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gputop.publisher.marks import settle
from gputop.publisher.segment import LOOSE, Segment, Source
from gputop.publisher.tally import Row

if TYPE_CHECKING:
    from gputop.publisher.ledger import Ledger
    from gputop.publisher.loop import Loop

UNTOLD = frozenset({LOOSE, "self", "data"})
"""What a step of which only the time was noted may have for phases: `data` where the pass ended in it. With any other
it is told as it is."""


def untold(seg: Segment) -> bool:
    """Whether no more is known of a segment than its time."""
    return seg.counted and not seg.partial and not seg.first and not seg.extra and not seg.phases.keys() - UNTOLD


def begin_counted(loop: Loop, seg: Segment) -> None:
    """Of the step that has just begun with this segment only the time is noted."""
    seg.counted = loop.counts = True
    seg.marks = 0
    seg.phases.clear()
    if loop.regions is not None:
        loop.regions.pause()


def passed(loop: Loop, source: Source, row: Row) -> bool:
    """Steps in which nothing but their time was noted have trained, from the open one on, and the next such one begins.
    False: that is not plain."""
    train = loop.train
    if train is None or train is not loop.seg or train.source is not source or not untold(train):
        return False
    if row.steps and loop.counting is not None:
        loop.counting.count(train.start, row)
    loop.steps += row.steps
    train.start = train.since = train.arrived = row.last
    train.work = False
    train.phases.clear()
    return True


def told_again(loop: Loop, now: int, samples: int | None) -> Segment | None:
    """Of the step that has just begun all is noted again; its batch came at `now`."""
    seg = loop.train
    if seg is not None:
        seg.counted = False
        seg.cpu_from = loop.cpu_clock()
        seg.batches = seg.marks = 1
        seg.samples = samples
        seg.phases["data"] = now - seg.start
        seg.arrived = seg.since = now
    return seg


def count(ledger: Ledger, now: int) -> None:
    """The step begun with the open request, or with the end of the one before, is such a step."""
    seg = ledger.loop.train
    if ledger.asked is not None:
        ledger.arrive(now, counted=True)
    elif seg is not None and seg is ledger.loop.seg and seg.source is ledger.bare:
        begin_counted(ledger.loop, seg)


def ticks(ledger: Ledger, source: Source, row: Row) -> None:
    """A row of such steps has trained, and the next such one began where the last of them ended."""
    if ledger.asked is None and not passed(ledger.loop, source, row):
        for at in row.ends():  # not taken for steps to be counted after all
            _tick(ledger, source, at)


def resume(ledger: Ledger, source: Source, row: Row, now: int, samples: int | None) -> Segment | None:
    """The same, but that all is noted again of the next step, whose batch came at `now`. Returns its segment."""
    if ledger.asked is None and passed(ledger.loop, source, row):
        return told_again(ledger.loop, now, samples)
    for at in row.ends()[:-1]:
        _tick(ledger, source, at)
    worked(ledger, row.last, trained=True)
    ledger.request(source, row.last)
    return ledger.arrive(now, samples)


def _tick(ledger: Ledger, source: Source, asked: int) -> None:
    """The next such step begins with the batch asked for at `asked`; the one before has trained."""
    loop = ledger.loop
    if ledger.asked is not None or passed(loop, source, Row(1, asked, asked)):
        return
    train = loop.train
    if train is not None and train is loop.seg and train.source is source:
        train.work = train.work or source.trains
    if source is ledger.bare:
        loop.turn(source, asked)
        count(ledger, asked)
    else:
        ledger.request(source, asked)
        ledger.arrive(asked, counted=True)


def turn(ledger: Ledger, source: Source, now: int) -> None:
    """Such a step of a loop without a loader is over, and one told in detail begins."""
    if source is ledger.bare and ledger.asked is None:
        ledger.loop.turn(source, now)


def worked(ledger: Ledger, now: int, *, trained: bool) -> None:
    """From now on all is noted again of the step that is open; whether it has trained so far."""
    seg = ledger.loop.seg
    if seg is not None and seg.counted and ledger.asked is None:
        settle(seg, now)
        seg.phases.pop(LOOSE, None)
        if trained or (seg.source.declared and seg.source.trains):
            seg.work = seg.optimizer = True
