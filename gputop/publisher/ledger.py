"""The step clock: marks of the training thread become steps, each nanosecond of a step in one phase at most.

Fed with monotonic times, it knows neither torch nor threads nor sockets. Nothing here raises on marks out of order.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from gputop.publisher.counted import begin_counted
from gputop.publisher.counting import Counting
from gputop.publisher.levels import NO_WORK_NS
from gputop.publisher.loop import Loop, Note
from gputop.publisher.marks import Token, note_child, open_mark, same_extent, settle
from gputop.publisher.regions import Regions
from gputop.publisher.segment import LOOSE, Segment, Source, note_site

CPU_FROM_NS = 2_000_000
"""Steps shorter than this don't say their CPU time: asking the kernel for it costs microseconds."""

TELLING = frozenset({"forward", "backward", "optimizer"})
"""Names of explicit phases that say something of the step they are in."""


class Ledger:
    """The step clock of one training thread. All times are monotonic ns.

    `emit` takes finished segments; `note(kind, start, duration, label)` moments worth a mark on the time axis.
    """

    def __init__(
        self,
        emit: Callable[[Segment], None],
        note: Note | None = None,
        *,
        cpu_clock: Callable[[], int | None] = time.thread_time_ns,
        regions: Regions | None = None,
        counting: Counting | None = None,
    ) -> None:
        self.loop = Loop(emit, note or _silent, cpu_clock=cpu_clock, regions=regions, counting=counting)
        self._cpu_clock = cpu_clock
        self.asked: tuple[Source, int, bool] | None = None
        """The open request: of which pass, since when, and whether for the iterator."""
        self._forward_said = False
        self._requests = 0
        self.bare: Source | None = None
        """The steps of a loop without a loader."""
        self._bare_optimizer: int | None = None
        self._turns = False

    # Requests for batches. Only a batch that comes opens a segment, and that from its request on.

    def request(self, source: Source, now: int, *, construct: bool = False) -> bool:
        """The loop asks for a batch, or for the iterator (`construct`). False inside another request."""
        if self.asked is not None:
            return False
        self.asked = source, now, construct
        loop = self.loop
        if loop.tail is not None:
            loop.join(now)
        seg = loop.seg
        if seg is None:
            loop.cpu_now = self._cpu_clock()
        else:
            phases = seg.phases
            top = seg.top
            phases[top] = phases.get(top, 0) + now - seg.since
            seg.since = now
            loop.cpu_now = self._cpu_clock() if now - seg.start > CPU_FROM_NS else None
        if loop.regions is not None:
            loop.regions.request(now)
        return True

    def arrive(self, now: int, samples: int | None = None, *, counted: bool = False) -> Segment | None:
        """The batch (or the iterator) is there. Returns the segment it belongs to. `counted`: that is a step of which
        only the time is noted."""
        if self.asked is None:
            return None
        source, asked, construct = self.asked
        self.asked = None
        loop = self.loop
        train = loop.train
        if train is not None and not construct and (seg := loop.follow(train, source, asked)) is not None:
            seg.batches = 1
            seg.phases["data"] = now - asked
        else:
            seg = loop.open(source, asked, construct=construct)
            phases = seg.phases
            if construct:
                seg.first = True
            else:
                self._requests += 1
                seg.batches += 1
                phases.pop(LOOSE, None)
            phases["data"] = phases.get("data", 0) + now - asked
        seg.arrived = seg.since = now
        seg.marks += 1
        if samples is not None:
            seg.samples = samples if seg.samples is None else seg.samples + samples
        if counted and seg is loop.train and seg.start == asked:
            begin_counted(loop, seg)
        elif loop.regions is not None:
            loop.regions.boundary(seg, "data", now)
        return seg

    def bare_of(self, optimizer: int) -> Source | None:
        """The steps of a loop without a loader, where they end with those of this optimizer (its id)."""
        return self.bare if optimizer == self._bare_optimizer and self._requests == 0 else None

    def given(self, source: Source, since: int | None, now: int, samples: int | None, updates: bool | None) -> None:
        """A framework says that a training batch is here; what no mark covers from `since` on was the wait for it.

        Without `since` there was none, or it is still to come, in a phase of its own or unseen.
        Nobody has seen the request, so there is no mark of it in the device's queue: the last one stands for it.
        """
        loop = self.loop
        first, source.trains = not source.trains, True
        before, regions = loop.seg, loop.regions
        loop.regions = None
        asked = now if since is None else min(now, max(since, before.since) if before is not None else since)
        self.request(source, asked)
        loop.regions = regions
        seg = self.arrive(now, samples)
        if seg is not None:
            seg.first, seg.work = first, True
            seg.optimizer = bool(updates)
            if since is None:
                seg.phases.pop("data", None)

    def rest(self, now: int, *, cut_short: bool = False) -> None:
        """No step is open from now on: the last one is whole, unless it was cut short."""
        self.fail(now)
        loop = self.loop
        train = loop.train
        if train is not None and train is loop.seg and train.source is self.bare and not train.work:
            train.phases.clear()
            loop.train = loop.seg = None  # begun with the last optimizer step, and nothing has come of it
        loop.finish(now, partial=cut_short)

    def fail(self, now: int) -> None:
        """No batch came: the pass is exhausted, or an error was raised. The wait belongs to the step before."""
        if self.asked is None:
            return
        source, asked, construct = self.asked
        self.asked = None
        loop = self.loop
        before = loop.seg
        if not construct:
            loop.spent(source, asked, now)
        self.span("data", loop.seg.since if loop.seg is not None else now, now)
        if loop.regions is not None and loop.seg is not None:
            loop.regions.begin(before)
            loop.regions.boundary(loop.seg, "data", now)

    def close(self, source: Source, now: int) -> None:
        """The pass is over: exhausted, or its iterator dropped."""
        before = self.loop.seg
        self.loop.close(source, now)
        if self.loop.seg is not before:
            self._given_away(now)

    def _given_away(self, now: int) -> None:
        """Time up to `now` is given to what came before the open request, if one is open: it waits from now on.

        Nothing is marked within a request, but that a pass ends which is dropped just then, and what is left of a
        request that an interrupt has ended without a word.
        """
        if self.asked is not None:
            source, _, construct = self.asked
            self.asked = source, now, construct

    # Marks

    def enter(self, name: str, now: int) -> Token | None:
        """Time belongs to `name` from now on. None outside of any step."""
        seg = self.loop.seg
        if seg is None or self.asked is not None:
            return None
        return open_mark(seg, name, now)

    def save(self, now: int) -> Token | None:
        """A checkpoint begins: a mark of the device's own stands on both sides of it."""
        token = self.enter("checkpoint", now)
        if token is not None and self.loop.regions is not None:
            seg = token[0]
            self.loop.regions.boundary(seg, seg.stack[-1] or "other", now)
        return token

    def leave(self, token: Token | None, now: int) -> Segment | None:
        """The mark ends, and with it marks inside it that were left open. Returns its segment; None if that is over."""
        if token is None:
            return None
        seg, depth, _ = token
        if self.asked is not None:
            self._given_away(now)
        if seg is not self.loop.seg or seg.into is not None:
            found = self._owner(seg, depth, now)
            if found is None:
                return None
            seg, depth = found
        stack = seg.stack
        if len(stack) < depth:
            return None
        settle(seg, now)
        seg.top = stack[depth - 1]
        del stack[depth - 1 :]
        return seg

    def _owner(self, seg: Segment, depth: int, now: int) -> tuple[Segment, int] | None:
        """Where a mark of a segment that time doesn't go to now is still open, if anywhere."""
        loop = self.loop
        if loop.tail is not None:
            loop.join(now)
        while seg.into is not None:
            seg, shift = seg.into
            if shift < 0:
                return None
            depth += shift
        if seg is loop.seg:
            return seg, depth
        if seg is not loop.train and all(level.open is not seg for level in loop.levels):
            return None
        level = loop.levels[-1]
        if not level.done and not level.source.evaluates:
            if depth <= len(seg.stack):
                seg.top = seg.stack[depth - 1]
                del seg.stack[depth - 1 :]
            return None
        while loop.levels and loop.seg is not seg:
            loop.leave_level(now)
        return (seg, depth) if loop.seg is seg else None

    def span(self, name: str, start: int, end: int) -> Segment | None:
        """A stretch that has just ended and in which no other mark was made. Returns its segment, if any."""
        seg = self.loop.seg
        if seg is None or self.asked is not None:
            return None
        start = max(start, seg.since)
        end = max(start, end)
        phases = seg.phases
        top = seg.top
        phases[top] = phases.get(top, 0) + start - seg.since
        phases[name] = phases.get(name, 0) + end - start
        seg.since = end
        seg.marks += 1
        if seg.stack:
            note_child(seg, len(seg.stack), name, start, end)
        return seg

    def backward(self, now: int) -> Token | None:
        """A backward begins: what led to it since the batch came was forward work, so the step is training."""
        loop = self.loop
        seg = loop.seg
        if self.asked is not None:
            return None
        if seg is not loop.train:
            seg = loop.decide(now)
        if seg is None:
            return None
        seg.source.trains = seg.work = True
        token, phases = open_mark(seg, "backward", now), seg.phases
        loose = phases.pop(LOOSE, 0)
        if loose and not self._forward_said:
            phases["forward"] = phases.get("forward", 0) + loose
        if loop.regions is not None:
            loop.regions.boundary(seg, seg.stack[-1] or "forward", now)
        return token

    def optimizer(self, now: int, which: int | None = None) -> Token | None:
        """The step of an optimizer (`which`: its id) begins: evidence of training too, where no backward was seen."""
        loop = self.loop
        if self.asked is not None:
            return None
        if loop.tail is not None:
            loop.join(now)
        seg = loop.seg
        if seg is not loop.train:
            seg = loop.decide(now)
        if self._requests == 0 and which is not None:
            self._without_loader(which)
        if seg is None:
            return None
        seg.source.trains = seg.work = seg.optimizer = True
        token = open_mark(seg, "optimizer", now)
        seg.phases.pop(LOOSE, None)
        if loop.regions is not None:
            loop.regions.boundary(seg, seg.stack[-1] or "other", now)
        return token

    def _without_loader(self, which: int) -> None:
        """A loop that asks no loader for its batches: a step ends with each step of the first optimizer seen."""
        if self.bare is None:
            self.bare, self._bare_optimizer = Source(None), which
            self.bare.trains = True
        self._turns = which == self._bare_optimizer

    def exchange(self, now: int) -> Token | None:
        """In a backward, all gradients are there, and from now on the exchange between ranks is waited for."""
        loop = self.loop
        seg = loop.seg
        if seg is None or self.asked is not None or seg.top != "backward":
            return None
        token = open_mark(seg, "comm", now)
        if loop.regions is not None:
            loop.regions.boundary(seg, "backward", now)
        return token

    def done(self, token: Token | None, name: str, now: int, inside: int = 0) -> None:
        """The automatic mark `name` (backward or optimizer) has ended, or raised.

        `inside`: time, ns, of the mark made inside it.
        """
        if token is not None:
            start = token[2]
            seg = self.leave(token, now)
            if seg is not None:
                if seg.stack:
                    note_child(seg, len(seg.stack), name, start, now, inside)
                if self.loop.regions is not None:
                    self.loop.regions.boundary(seg, name, now)
        if self._turns and name == "optimizer":
            self._turns = False
            if self.bare is not None and self._requests == 0:
                self.loop.turn(self.bare, now)
                self._given_away(now)

    def copied(self, start: int, end: int, nbytes: int, pageable: int, blocking: int) -> None:
        """A copy to the device was made: the batch is being handed over, so what came before it was no forward work."""
        seg = self.span("h2d", start, end)
        if seg is None:
            return
        if not seg.work:
            seg.phases.pop(LOOSE, None)
            if start - seg.arrived < NO_WORK_NS:
                seg.arrived = end
        seg.count("h2d_bytes", nbytes)
        seg.count("h2d_pageable_bytes", pageable)
        seg.count("h2d_blocking_bytes", blocking)
        if self.loop.regions is not None:
            self.loop.regions.boundary(seg, "h2d", end)

    def synced(self, site: str, call: str, start: int, end: int, nbytes: int = 0) -> None:
        """A value was read back from the device: the host waited from `start` to `end`."""
        seg = self.span("sync", start, end)
        if seg is None:
            return
        note_site(seg, (site, call), 1, end - start)
        if nbytes:
            seg.count("d2h_bytes", nbytes)
        if self.loop.regions is not None:
            self.loop.regions.drained()

    # Phases that the script names itself

    def begin_phase(self, name: str, now: int) -> Token | None:
        """An explicit phase begins; `backward` and `optimizer` are evidence of training, as the hooks' are."""
        loop = self.loop
        if name in TELLING and self.asked is None:
            self._tell(name, now)
        seg = loop.seg
        if seg is None or self.asked is not None:
            return None
        token = open_mark(seg, name, now)
        if token[1] == 1 and loop.regions is not None:
            loop.regions.boundary(seg, "other", now)
        return token

    def _tell(self, name: str, now: int) -> None:
        """What the name of an explicit phase says of the step."""
        if name == "forward":
            self._forward_said = True
            return
        loop = self.loop
        loop.knows_backward = True
        if name == "optimizer" and loop.tail is not None:
            loop.join(now)
        seg = loop.decide(now) if loop.levels or loop.tail is not None else loop.seg
        if seg is not None:
            seg.source.trains = seg.work = True
            if name == "optimizer":
                seg.optimizer = True

    def end_phase(self, name: str, token: Token | None, now: int, site: str | None = None) -> None:
        """An explicit phase ends. Around one automatic mark of nearly the same extent its name wins."""
        if token is None:
            return
        held, depth, start = token
        if name == "eval":
            self.loop.evaluated(held)
        seg = self.leave(token, now)
        if seg is None:
            return
        if seg.child is not None:
            same_extent(seg, depth, name, start, now)
        if site is not None:
            note_site(seg, (site, name), 1, now - start)
        regions = self.loop.regions
        if regions is not None:
            if name == "sync":
                regions.drained()
            if depth == 1:
                regions.boundary(seg, name, now)

    # What else there is to say

    def open_phase(self) -> tuple[str, int] | None:
        """The innermost open phase and since when time goes to it; None outside of steps. For any thread to ask."""
        seg, asked = self.loop.seg, self.asked
        if asked is not None:
            return "data", asked[1]
        if seg is None:
            return None
        top, since = seg.top, seg.since
        if top == LOOSE:
            top = "forward" if seg.batches and seg.source.trains and not seg.work else "other"
        return top, since

    def finish(self, now: int) -> None:
        """The process ends: what is open goes out as it stands."""
        self.fail(now)
        self.loop.finish(now)


def _silent(kind: str, start: int, duration: int, label: str | None) -> None:
    """No one listens."""
