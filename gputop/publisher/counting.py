"""Steps of which only the time was noted, summed by the second; what they were made of, the others of it say."""

from __future__ import annotations

from collections.abc import Callable

from gputop.publisher.segment import Segment
from gputop.publisher.tally import Row
from gputop.records import Fold

S = 1_000_000_000


class Sums:
    """Steps of one second, summed. Phases and samples are those of the `told` ones of them.

    `counted`: the steps told in detail stand for the others only, and are themselves not among `steps`. `own_ns` is
    what reading the notes of those took, while these ran.
    """

    __slots__ = (
        "counted",
        "dur_ns",
        "kind",
        "max_ns",
        "min_ns",
        "own_ns",
        "phases",
        "samples",
        "start",
        "steps",
        "told",
        "told_ns",
    )

    def __init__(self, start: int, kind: str | None, *, counted: bool = False) -> None:
        self.start = start
        self.kind = kind
        self.counted = counted
        self.steps = self.dur_ns = self.samples = self.max_ns = self.told = self.told_ns = self.own_ns = 0
        self.min_ns: int | None = None
        self.phases: dict[str, int] = {}

    def add(self, duration: int) -> None:
        """Sum one more step in."""
        self.steps += 1
        self.dur_ns += duration
        self.max_ns = max(self.max_ns, duration)
        if self.min_ns is None or duration < self.min_ns:
            self.min_ns = duration

    def add_row(self, start: int, row: Row) -> None:
        """Sum in steps that follow each other from `start` on."""
        steps, duration = row.steps, row.last - start
        if steps == 1:
            self.add(duration)
        else:
            self.steps += steps
            self.dur_ns += duration
            self.max_ns = max(self.max_ns, row.most)
            self.min_ns = row.least if self.min_ns is None else min(self.min_ns, row.least)
        if row.own_ns:
            self.own_ns += row.own_ns

    def learn(self, seg: Segment) -> None:
        """What a step told in detail was made of."""
        seg.settle()
        self.told += 1
        self.told_ns += seg.end - seg.start
        self.samples += seg.samples or 0
        phases = self.phases
        for name, ns in seg.phases.items():
            if name == "self" and self.counted:
                self.told_ns -= ns  # what it costs to tell all, which these steps have not paid
            else:
                phases[name] = phases.get(name, 0) + ns

    def record(self, run_id: str, t: int) -> Fold:
        """The sums as a record that begins at `t`; what only some of the steps told stands for all, in proportion."""
        phases, samples = self.phases, self.samples
        if self.counted:
            rest = max(0, self.dur_ns - self.own_ns)
            phases = {name: ns * rest // self.told_ns for name, ns in phases.items()} if self.told_ns else {}
            if self.own_ns:
                phases["self"] = self.dur_ns - rest
            samples = samples * self.steps // self.told if self.told else 0
        return Fold(
            t=t, run_id=run_id, steps=self.steps, dur_ns=self.dur_ns, phases_ns=phases, min_ns=self.min_ns,
            max_ns=self.max_ns, samples=samples or None, kind=self.kind, counted=self.counted or None,
        )  # fmt: skip


class Counting:
    """Sums up counted steps; `emit` takes the sums of a second once it is over. Seconds are those of the epoch."""

    def __init__(self, emit: Callable[[Sums], None], offset_ns: int = 0) -> None:
        self._emit = emit
        self._offset_ns = offset_ns
        self._sums: Sums | None = None
        self._until = 0
        self._like: Segment | None = None

    def count(self, start: int, row: Row) -> None:
        """More steps, of which no more is known. The first began at `start`, the last in the same second."""
        if self._sums is None or start >= self._until:
            self._begin(start)
        assert self._sums is not None
        self._sums.add_row(start, row)

    def learn(self, seg: Segment) -> None:
        """A train step told in detail: what those around it are like."""
        self._like = seg
        if self._sums is not None:
            if seg.start >= self._until:
                self.flush()
            else:
                self._sums.learn(seg)

    def flush(self, now: int | None = None) -> None:
        """Hand out the sums so far, if their second has long been over by `now`; without it in any case."""
        sums = self._sums
        if sums is None or (now is not None and now < self._until + S):
            return
        self._sums = None
        if not sums.told and self._like is not None:
            sums.learn(self._like)
        self._emit(sums)

    def _begin(self, start: int) -> None:
        self.flush()
        self._sums = Sums(start, "train", counted=True)
        self._until = start + S - (start + self._offset_ns) % S
