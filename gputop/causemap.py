"""The causes over a recording that holds no verdicts: judged at evenly spaced moments, one at a time."""

from __future__ import annotations

from gputop.diagnosis.verdict import judge
from gputop.sources import Transport
from gputop.timeline import Timeline

MOMENTS = 120
"""Moments judged over the whole span: as many as a map line has cells, about."""

CLOSEST_NS = 5_000_000_000
"""Moments are at least this far apart."""


class CauseMap:
    """What held a run back over a span, as far as it has been judged. Each `judge_one` takes some ten milliseconds."""

    def __init__(self, transport: Transport, run_id: str) -> None:
        self.run_id = run_id
        self.changes: tuple[tuple[int, str], ...] = ()
        position = transport.position()
        self._transport = transport
        span = position.to_ns - position.from_ns
        count = max(1, min(MOMENTS, span // CLOSEST_NS))
        self._width = span // count
        self._moments = [position.from_ns + self._width * (index + 1) for index in range(count)]
        self.judged_ns = position.from_ns

    def done(self) -> bool:
        """Whether the whole span has been judged."""
        return not self._moments

    def judge_one(self) -> None:
        """Judge the next moment. Raises what reading a recording does."""
        if not self._moments:
            return
        t_ns = self._moments.pop(0)
        past = self._transport.moment(t_ns)
        if past is None:
            self._moments.clear()
            return
        timeline = Timeline(past.column_ns)
        timeline.restore(past)
        if self.run_id in timeline.runs:
            cause = judge(timeline.window(self.run_id, t_ns)).cause
            if not self.changes or self.changes[-1][1] != cause:
                self.changes = (*self.changes, (t_ns - self._width, cause))
        self.judged_ns = t_ns

    def give_up(self) -> None:
        """Judge no further: the rest can't be read."""
        self._moments.clear()
