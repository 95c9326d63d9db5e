"""Steps side by side: their times, durations and phases as columns, so that many are looked at and summed at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import add, attrgetter, itemgetter

import msgspec

from gputop.records import MAX_INT, Step

_FIGURES = attrgetter("run_id", "t", "dur_ns", "samples", "phases_ns")


class Columns(msgspec.Struct, frozen=True):
    """Of each step its run, when it began, how long it took, its samples and its phases. Never empty."""

    run_id: tuple[str, ...]
    t: tuple[int, ...]
    dur_ns: tuple[int, ...]
    samples: tuple[int | None, ...]
    phases_ns: tuple[dict[str, int], ...]

    def plausible(self) -> bool:
        """Whether all figures can be meant: see `records.implausible`."""
        figures = list(chain.from_iterable(map(dict.values, self.phases_ns)))
        figures += filter(None, self.samples)
        return all(not some or 0 <= min(some) <= max(some) < MAX_INT for some in (self.t, self.dur_ns, figures))

    def end_ns(self) -> int:
        """When the last of them was over."""
        end: int = max(map(add, self.t, self.dur_ns))
        return end

    def some(self, places: Sequence[int]) -> Columns:
        """The steps at these places alone, of which there is at least one."""
        if len(places) == len(self.t):
            return self
        if len(places) == 1:
            at = places[0]
            return Columns(*[column[at : at + 1] for column in msgspec.structs.astuple(self)])
        return Columns(*map(itemgetter(*places), msgspec.structs.astuple(self)))

    def by_run(self) -> dict[str, list[int]]:
        """The places of each run's steps."""
        if self.run_id.count(self.run_id[0]) == len(self.run_id):
            return {self.run_id[0]: list(range(len(self.run_id)))}
        places: dict[str, list[int]] = {}
        for place, run_id in enumerate(self.run_id):
            if run_id in places:
                places[run_id].append(place)
            else:
                places[run_id] = [place]
        return places


def columns_of(steps: Sequence[Step]) -> Columns:
    """The columns of steps, of which there is at least one."""
    return Columns(*zip(*map(_FIGURES, steps), strict=True))
