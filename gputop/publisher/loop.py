"""Which requests for batches make a training step, which a step of another loader: decided when it can be known.

A request opens a segment. A pass over a loader that has fed no backward yet stands as a *level* on the step that it
interrupts. A backward makes the topmost level's segments the next training step, and the step below ends where they
began. A pass that ends, or is left, without one leaves steps of its own, and its time is `eval` in the step below.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gputop.publisher.counted import untold
from gputop.publisher.counting import Counting
from gputop.publisher.levels import LEADS, NO_WORK_NS, UNDECIDED_NS, UNDECIDED_SEGMENTS, Level, merge
from gputop.publisher.regions import Regions
from gputop.publisher.segment import LOOSE, Segment, Source
from gputop.publisher.tally import Row

Note = Callable[[str, int, int, "str | None"], None]


class Loop:
    """The segments of one training thread. `emit` takes finished ones, `note(kind, start, ns, label)` moments.

    `seg` is the segment that time goes to now; None outside of any step. `train` is the open training step.
    """

    def __init__(
        self,
        emit: Callable[[Segment], None],
        note: Note,
        *,
        cpu_clock: Callable[[], int | None] = time.thread_time_ns,
        regions: Regions | None = None,
        counting: Counting | None = None,
    ) -> None:
        self.seg: Segment | None = None
        self.train: Segment | None = None
        self.tail: Segment | None = None
        """What followed the request that found the training pass exhausted: a step of its own where a backward comes in
        it (a loader that stays one batch ahead still held one), else part of the training step."""
        self.levels: list[Level] = []
        self.regions = regions
        self.knows_backward = False
        """Whether a backward would be noticed; where not, steps don't say had_backward."""
        self.mark_ns = 0
        """What one mark costs the thread, as last measured."""
        self.cpu_now: int | None = None
        """CPU time of the thread when the last request was made; None where it was not asked for."""
        self.marks = 0
        """Marks in the last step that was told in detail."""
        self.detailed = 0
        """Steps told in detail, of those that plainly followed on another."""
        self.steps = 0
        self.others = 0
        self.counting = counting
        self.counts = False
        """Some steps are only counted."""
        self._emit = emit
        self._note = note
        self.cpu_clock = cpu_clock

    def follow(self, train: Segment, source: Source, asked: int) -> Segment | None:
        """The next step, where it plainly follows on the one before: the way of nearly every batch. None: decide it."""
        if self.levels or train.source is not source or not (train.work or source.declared) or not train.batches:
            return None
        if self.regions is not None:
            self.regions.begin(train)
        cpu = self.cpu_now
        train.end = asked
        if cpu is not None and train.cpu_from is not None:
            train.cpu = cpu - train.cpu_from
        self._told(train)
        train.own = train.marks * self.mark_ns
        if train.stack:
            train.stack = []
            train.top = LOOSE
        source.steady = source.steady + 1 if train.batches == 1 else 0
        if self.regions is None and not train.first and not self.counts and (train.work or not self.knows_backward):
            train.n = self.steps
            self.steps += 1
            self._emit(train)
        else:
            self._out(train)
        seg = self.train = self.seg = Segment(asked, source, cpu)
        return seg

    def _told(self, seg: Segment) -> None:
        """A step is over that another follows."""
        if not seg.counted:
            self.marks = seg.marks
            self.detailed += 1

    def open(self, source: Source, now: int, *, construct: bool = False) -> Segment:
        """A batch of `source` is asked for (or its iterator): the segment that the request belongs to."""
        levels, train = self.levels, self.train
        lead = None
        if any(level.source is source for level in levels):
            while levels[-1].source is not source:
                self.leave_level(now)
            level = levels[-1]
            return level.open if level.open.batches == 0 else self._again(level, now)
        if levels and (source.trains or (train is not None and train.source is source)):
            lead = self._lead(now) if source.trains else None
            while levels:
                self.leave_level(now)
        if not levels:
            if lead is None and train is not None and not construct and self._joins(source, train):
                return train
            if source.trains or self._certain(source):
                return self._next_step(source, now, lead)
        seg = self._begin(source, now)
        levels.append(Level(seg))
        self.seg = seg
        return seg

    def _joins(self, source: Source, train: Segment) -> bool:
        """Whether a request is part of the training step that is open: no forward work has followed its batch yet."""
        holder = train.source
        if source is holder:
            return train.batches == 0 or (source.trains and not train.work and not source.declared)
        if holder.declared and holder.open and not source.declared:
            return source.trains
        return source.trains and not source.declared and not train.work and not holder.declared

    def _certain(self, source: Source) -> bool:
        """Whether a declared pass is taken for training before any backward."""
        if not source.declared:
            return False
        train = self.train
        if train is None or train.source is source:
            return True
        return not self.knows_backward and not (train.source.declared and train.source.open)

    def _next_step(self, source: Source, now: int, lead: Segment | None) -> Segment:
        train = self.train
        if lead is not None:
            if train is not None:
                self._close(train, lead.start)
                self._out(train)
            lead.source = source
            self.train = self.seg = lead
            return lead
        seg = self._begin(source, now)
        if train is not None:
            self._close(train, now, seg.cpu_from)
            self._out(train)
        self.train = self.seg = seg
        return seg

    def spent(self, source: Source, asked: int, now: int) -> None:
        """The training pass was asked for a batch at `asked` and has none: what follows may be its last step."""
        train = self.train
        if train is None or self.seg is not train or train.source is not source or source.declared:
            return
        if train.work and not train.stack:
            self.tail = self.seg = Segment(asked, source, self.cpu_now)
            self.tail.arrived = now

    def join(self, now: int) -> None:
        """No backward came in what followed an exhausted pass: it belongs to the step before."""
        tail, train, self.tail = self.tail, self.train, None
        if tail is not None and train is not None:
            tail.pass_time(now)
            train.absorb(tail)
            self.seg = train

    def turn(self, source: Source, now: int) -> None:
        """The next step of a loop without a loader begins."""
        while self.levels:
            self.leave_level(now)
        source.steady = source.steady + 1 if self.train is not None and self.train.source is source else 0
        if self.train is not None:
            self._told(self.train)
        self.cpu_now = self.cpu_clock()
        if self.regions is not None:
            self.regions.request(now)
        self._next_step(source, now, None)

    def _again(self, level: Level, now: int) -> Segment:
        """The same undecided pass asks again: its open segment has ended."""
        ended = level.open
        seg = self.seg = level.open = self._begin(level.source, now)
        self._close(ended, now, seg.cpu_from)
        level.done.append(ended)
        first = level.done[0]
        worked = first.end - first.arrived >= NO_WORK_NS
        old = worked and now - first.start > UNDECIDED_NS
        if level.source.declared or old or len(level.done) > UNDECIDED_SEGMENTS:
            level.source.evaluates = True
        if level.source.evaluates:
            self._release(level)
        return seg

    def _lead(self, now: int) -> Segment | None:
        """The one batch of another pass asked for just before a training batch, where it belongs to that step."""
        level = self.levels[-1]
        other = level.source
        if len(self.levels) > 1 or level.done or other.evaluates or not other.open or level.open.batches != 1:
            return None
        other.led += 1
        if now - level.open.arrived >= NO_WORK_NS and other.led <= LEADS:
            return None
        other.trains = True
        self.levels.pop()
        return level.open

    def decide(self, now: int) -> Segment | None:
        """Forward work has led to a backward here: the segment it belongs to, training from now on."""
        seg, train, levels = self.seg, self.train, self.levels
        if seg is None or (seg is train and not levels):
            return train
        seg.pass_time(now)
        if seg is self.tail and train is not None:
            self.tail = None
            self._close(train, seg.start, seg.cpu_from)
            self._out(train)
            self.train = seg
            return seg
        while levels and not levels[-1].done and levels[-1].open.batches == 0:
            self._fold(levels.pop(), now)
        if not levels:
            return self.train
        level = levels.pop()
        source = level.source
        whole = merge([*level.done, level.open])
        while levels:
            whole = self._settle(levels.pop(), whole)
        source.trains, source.evaluates = True, False
        if train is not None:
            holder = train.source
            if (holder.declared and holder.open and not source.declared) or not (train.work or holder.declared):
                train.absorb(whole)
                self.seg = train
                return train
            self._close(train, whole.start)
            self._out(train)
        self.train = self.seg = whole
        return whole

    def _settle(self, below: Level, whole: Segment) -> Segment:
        """An undecided pass below one that proved to train: part of the same step, or steps of its own."""
        opened = below.open
        if not below.done and opened.batches == 0:
            self._fold(below, whole.start)
            return whole
        below.source.led += 1
        if below.source.open and whole.start - opened.arrived < NO_WORK_NS:
            below.source.trains = True
            return merge([*below.done, opened, whole])
        self._end_level(below, whole.start)
        self._interrupted(below, whole.start)
        return whole

    def close(self, source: Source, now: int) -> None:
        """A pass is over: exhausted, or its iterator dropped."""
        source.open = False
        if any(level.source is source for level in self.levels):
            while self.levels:
                ended = self.levels[-1].source
                self.leave_level(now)
                if ended is source:
                    return

    def evaluated(self, holder: Segment) -> None:
        """The passes begun since `holder` was left, within a mark of the script's, were an evaluation."""
        for level in reversed(self.levels):
            if level.open is holder:
                return
            level.source.evaluates = True

    def leave_level(self, now: int) -> None:
        """The topmost level is over without a backward: back to what it interrupted."""
        level = self.levels.pop()
        if not level.done and not level.source.evaluates and level.open.batches == 0:
            if self.seg is level.open:
                level.open.pass_time(now)
            self._fold(level, now)
            return
        if self.regions is not None:
            self.regions.boundary(level.open, "other", now)
        self._end_level(level, now)
        self.seg = self._interrupted(level, now)

    def _interrupted(self, level: Level, now: int) -> Segment | None:
        """A level that evaluated is over: its time is `eval` in the step it interrupted. Returns that."""
        below = self.levels[-1].open if self.levels else self.train
        if below is not None:
            below.phases.pop(LOOSE, None)
            below.phases["eval"] = below.phases.get("eval", 0) + now - level.start
            below.since = now
            if below is self.train:
                self._note("eval", level.start, now - level.start, None)
        return below

    def _fold(self, level: Level, now: int) -> None:
        """An iterator was made from which no batch has come: its time stays with the step it was made in."""
        below = self.levels[-1].open if self.levels else self.train
        if below is not None:
            loose = level.open.phases.get(LOOSE, 0) + below.phases.get(LOOSE, 0)
            below.add(level.open)
            if loose:
                below.phases[below.top] = below.phases.get(below.top, 0) + loose
            level.open.into = (below, -1)
        self.seg = below

    def _end_level(self, level: Level, now: int) -> None:
        self._close(level.open, now)
        if level.open.batches > 0:
            level.done.append(level.open)
        self._release(level)

    def _release(self, level: Level) -> None:
        for seg in level.done:
            if self.train is not None or self.levels:
                seg.kind = "eval"
            self._out(seg)
        level.done.clear()

    def _begin(self, source: Source, now: int) -> Segment:
        if self.regions is not None:
            self.regions.begin(self.seg)
        return Segment(now, source, self.cpu_now)

    def _close(self, seg: Segment, now: int, cpu: int | None = None) -> None:
        """End a segment at `now`, and with it the marks still open in it. Marks cost unmarked time."""
        if now > seg.since:
            seg.pass_time(now)
        seg.end = now
        if seg.cpu_from is not None and now - seg.start > 0:
            spent = self.cpu_clock() if cpu is None else cpu
            seg.cpu = max(0, spent - seg.cpu_from) if spent is not None else None
        seg.own = seg.marks * self.mark_ns
        seg.settle()
        seg.marks = 0
        seg.stack.clear()
        seg.top = LOOSE

    def _out(self, seg: Segment) -> None:
        if seg.kind == "eval" or (self.knows_backward and not seg.work):
            seg.n = self.others
            self.others += 1
        else:
            seg.n = self.steps
            self.steps += 1
            if self.counts and self.counting is not None:
                if untold(seg):
                    self.counting.count(seg.start, Row(1, seg.end, seg.end))
                    return
                if not seg.counted and not seg.partial:
                    self.counting.learn(seg)
            if seg.first and seg.source.epoch:
                self._note("epoch", seg.start, 0, str(seg.source.epoch))
        if self.regions is not None:
            self.regions.finish(seg, self._emit)
        else:
            self._emit(seg)

    def finish(self, now: int, *, partial: bool | None = None) -> None:
        """The process ends, or rests: what is open goes out as it stands. `partial` says whether that was cut short.

        Without a word the training step is whole if its optimizer has stepped and no mark is open in it. It ends with
        its last mark then: what follows is no step's time but that of the script's end.
        """
        whole = partial is None and self._whole()
        open_at = self.tail or self.train
        if whole and open_at is not None and not self.levels:
            now = open_at.since
        self.join(now)
        if self.levels and self.seg is not None:
            self.seg.partial = partial is not False
        while self.levels:
            self.leave_level(now)
        train, self.train, self.seg = self.train, None, None
        if train is not None:
            train.partial = not whole if partial is None else partial
            if whole:
                train.cpu_from = None  # the thread's CPU time is known at the end of the process only
            self._close(train, now)
            self._out(train)
        if self.counting is not None:
            self.counting.flush()
        if self.regions is not None:
            self.regions.flush(self._emit)

    def _whole(self) -> bool:
        """Whether the open training step has done all that a training step does."""
        train, tail = self.train, self.tail
        return train is not None and train.optimizer and not train.stack and (tail is None or not tail.stack)
