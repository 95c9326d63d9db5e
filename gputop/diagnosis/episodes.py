"""Evaluations and checkpoints that no mark in the step itself tells of: when they ran, and whose time that was."""

from __future__ import annotations

from gputop.diagnosis.phases import EPISODIC, role
from gputop.records import Step
from gputop.window import Window

PLACED = "placed "
"""Prefix of the column in which time is gathered that is only found to be evaluation or checkpoint."""


def spans(window: Window, evaluated: list[Step]) -> list[tuple[str, int, int]]:
    """When evaluations and checkpoints are known to have run, from the steps of other loops and from events."""
    spans = [("eval", step.t, step.t + step.dur_ns) for step in evaluated]
    spans += [(event.kind, event.t, event.t + event.dur_ns) for event in window.events
              if event.kind in EPISODIC and event.dur_ns]  # fmt: skip
    return sorted(spans, key=lambda span: span[1])


def place_episodes(
    train: list[Step], lengths: list[float], columns: dict[str, list[float]], spans: list[tuple[str, int, int]]
) -> None:
    """Move time from `other` to evaluation or checkpoint where one is known to have run and no mark says so."""
    marked = {kind: [name for name in columns if role(name) == kind] for kind in EPISODIC}
    index = 0
    for kind, start, end in spans:
        while index < len(train) - 1 and train[index].t + lengths[index] <= start:
            index += 1
        place = index
        while place < len(train) and train[place].t < end:
            overlap = min(end, train[place].t + lengths[place]) - max(start, train[place].t)
            if overlap > 0 and not any(columns[name][place] for name in marked[kind]):
                moved = min(columns["other"][place], overlap)
                columns.setdefault(PLACED + kind, [0.0] * len(train))[place] += moved
                columns["other"][place] -= moved
            place += 1
    for kind in EPISODIC:
        placed = columns.pop(PLACED + kind, None)
        if placed is not None:
            marks = columns.get(kind)
            columns[kind] = placed if marks is None else [a + b for a, b in zip(placed, marks, strict=True)]
