"""What was said while a run went on against what today's rules say of the same moments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gputop.view import Segment

LEAST_NS = 10_000_000_000
"""A shorter disagreement is none: two looks at one run, begun at different moments, change their minds apart."""

QUIET = ("warmup", "idle", "unknown")
"""Saying nothing yet contradicts nothing."""


class Difference(msgspec.Struct, frozen=True):
    """A stretch of which something else was said at the time than today's rules say."""

    from_ns: int
    to_ns: int
    said: str
    cause: str


def segments(said: Iterable[tuple[int, str]], end_ns: int) -> tuple[Segment, ...]:
    """What was said of one run as (moment, cause), in time order, as the stretches in which each was in force."""
    out: list[Segment] = []
    for t, cause in said:
        if out and out[-1].cause == cause:
            continue
        if out:
            out[-1] = Segment(out[-1].from_ns, max(out[-1].from_ns, t), out[-1].cause)
        out.append(Segment(t, max(t, end_ns), cause))
    return tuple(out)


def differences(said: Sequence[Segment], judged: Sequence[Segment]) -> tuple[Difference, ...]:
    """Where the two disagree for long enough to matter, in time order; neighbouring stretches alike are joined."""
    found: list[Difference] = []
    first = 0
    for then in said:
        while first < len(judged) and judged[first].to_ns <= then.from_ns:
            first += 1
        for now in judged[first:]:
            if now.from_ns >= then.to_ns:
                break
            start, end = max(then.from_ns, now.from_ns), min(then.to_ns, now.to_ns)
            if then.cause == now.cause or then.cause in QUIET or now.cause in QUIET or end <= start:
                continue
            last = found[-1] if found else None
            if last is not None and (last.to_ns, last.said, last.cause) == (start, then.cause, now.cause):
                found[-1] = Difference(last.from_ns, end, then.cause, now.cause)
            else:
                found.append(Difference(start, end, then.cause, now.cause))
    return tuple(one for one in found if one.to_ns - one.from_ns >= LEAST_NS)


def share_pct(found: Sequence[Difference], judged: Sequence[Segment]) -> float:
    """How much of the judged time the two disagree on."""
    whole = sum(segment.to_ns - segment.from_ns for segment in judged)
    return 100 * sum(one.to_ns - one.from_ns for one in found) / whole if whole else 0.0
