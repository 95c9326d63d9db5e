"""A pass over a loader that may turn out to be training or evaluation, and how long that may stay open."""

from __future__ import annotations

from gputop.publisher.segment import Segment

NO_WORK_NS = 1_000_000
"""From a batch's arrival to the next request: less than this holds no forward pass worth a step of its own."""

UNDECIDED_NS = 2_000_000_000
"""A segment that has waited this long for a backward is released as a step of its own."""

UNDECIDED_SEGMENTS = 64
"""So are those of a pass that has made so many without a backward."""

LEADS = 2
"""A batch asked for right before training batches more often than this is part of the training step."""


class Level:
    """A pass that may turn out to be training or evaluation: segments already ended, and the one that is open."""

    __slots__ = ("done", "open", "source", "start")

    def __init__(self, opened: Segment) -> None:
        self.source = opened.source
        self.start = opened.start
        self.open = opened
        self.done: list[Segment] = []


def merge(parts: list[Segment]) -> Segment:
    """Segments that follow each other directly, as one; it trains for the last one's pass."""
    whole = parts[0]
    for part in parts[1:]:
        whole.absorb(part)
    whole.source = parts[-1].source
    return whole
