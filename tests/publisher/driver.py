"""A loop acted out on the step clock under a clock that the test moves: milliseconds in, steps out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gputop.publisher.ledger import Ledger
from gputop.publisher.regions import Regions
from gputop.publisher.segment import Segment, Source

MS = 1_000_000


class Acted:
    """One training thread. Every method lets its milliseconds pass; `steps` are the segments given out."""

    def __init__(self, *, knows_backward: bool = True, regions: Regions | None = None) -> None:
        self.now = 0
        self.steps: list[Segment] = []
        self.notes: list[tuple[str, int, int, str | None]] = []
        self.ledger = Ledger(
            self.steps.append,
            lambda *note: self.notes.append(note),
            cpu_clock=lambda: self.now // 2,
            regions=regions,
        )
        self.ledger.loop.knows_backward = knows_backward

    def work(self, ms: float) -> None:
        """Time that no mark covers."""
        self.now += round(ms * MS)

    def construct(self, source: Source, ms: float = 0) -> Source:
        """The iterator is made."""
        self.ledger.request(source, self.now, construct=True)
        self.work(ms)
        self.ledger.arrive(self.now)
        return source

    def batch(self, source: Source, ms: float, samples: int | None = 4) -> None:
        """A batch is asked for and comes."""
        self.ledger.request(source, self.now)
        self.work(ms)
        self.ledger.arrive(self.now, samples)

    def stop(self, source: Source, ms: float = 0) -> None:
        """The request that finds the pass exhausted."""
        self.ledger.request(source, self.now)
        self.work(ms)
        self.ledger.fail(self.now)
        self.ledger.close(source, self.now)

    def backward(self, ms: float) -> None:
        """One backward."""
        token = self.ledger.backward(self.now)
        self.work(ms)
        self.ledger.done(token, "backward", self.now)

    def optimizer(self, ms: float, which: int = 1) -> None:
        """One optimizer step."""
        token = self.ledger.optimizer(self.now, which)
        self.work(ms)
        self.ledger.done(token, "optimizer", self.now)

    def copy(self, ms: float, nbytes: int = 1000, pageable: int = 0) -> None:
        """A copy to the device."""
        start = self.now
        self.work(ms)
        self.ledger.copied(start, self.now, nbytes, pageable, nbytes)

    def sync(self, ms: float, site: str = "train.py:1") -> None:
        """A read of a device value."""
        start = self.now
        self.work(ms)
        self.ledger.synced(site, ".item()", start, self.now)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """An explicit phase."""
        token = self.ledger.begin_phase(name, self.now)
        try:
            yield
        finally:
            self.ledger.end_phase(name, token, self.now)

    def train_step(self, source: Source, data: float = 1, forward: float = 2) -> None:
        """A plain step: data, forward, 3 ms of backward, 1 ms of optimizer."""
        self.batch(source, data)
        self.work(forward)
        self.backward(3)
        self.optimizer(1)

    def finish(self) -> list[tuple[str, float, dict[str, float]]]:
        """End the run: (kind, duration, phases) of every step in order of time, in ms."""
        self.ledger.finish(self.now)
        self.steps.sort(key=lambda seg: (seg.start, seg.end))
        return [told(seg) for seg in self.steps]


def told(seg: Segment) -> tuple[str, float, dict[str, float]]:
    """A segment in words and ms: "train" when it had work, else "eval"."""
    seg.settle()
    kind = "train" if seg.work else "eval"
    return kind, (seg.end - seg.start) / MS, {name: ns / MS for name, ns in seg.phases.items()}
