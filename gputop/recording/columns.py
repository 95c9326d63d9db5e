"""Steps side by side: each of their fields a column, so that many are looked at, summed and written at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from operator import add, itemgetter
from typing import Any, NamedTuple

import msgspec

from gputop.records import MAX_INT, Step

_AT = {name: index for index, name in enumerate(Step.__struct_fields__)}
_RUN, _T, _DUR, _SAMPLES, _PHASES = (_AT[name] for name in ("run_id", "t", "dur_ns", "samples", "phases_ns"))
_TELLING = [_AT[name] for name in ("kind", "had_backward", "loader_id", "partial")]
_HAD_BACKWARD = _AT["had_backward"]


class Maps(NamedTuple):
    """A column of maps. Where all have the same keys, `keys` and a column for each; else `columns` is None."""

    maps: Sequence[dict[str, int]]
    keys: tuple[str, ...]
    columns: tuple[tuple[int, ...], ...] | None

    def some(self, pick: itemgetter[Any]) -> Maps:
        """The maps that `pick` picks, of which there is at least one."""
        if self.columns is None:
            return maps_of(pick(self.maps))
        return Maps((), self.keys, tuple(map(pick, self.columns)))

    def sums(self) -> tuple[tuple[str, ...], list[int]]:
        """The keys, and all of them summed for each."""
        if self.columns is not None:
            return self.keys, list(map(sum, self.columns))
        out: dict[str, int] = {}
        for given in self.maps:
            for key, value in given.items():
                out[key] = out.get(key, 0) + value
        return tuple(out), list(out.values())


def maps_of(maps: Sequence[dict[str, int]]) -> Maps:
    """A column of maps, of which there is at least one. Steps of a loop mostly have the same phases. A map that is
    missing raises TypeError."""
    keys = tuple(maps[0])
    try:
        if set(map(len, maps)) == {len(keys)}:
            if len(keys) > 1:
                return Maps(maps, keys, tuple(zip(*map(itemgetter(*keys), maps), strict=True)))
            return Maps(maps, keys, tuple(tuple([one[key] for one in maps]) for key in keys))
    except KeyError:  # as many, but other keys
        pass
    return Maps(maps, keys, None)


def _picking(places: Sequence[int]) -> itemgetter[Any]:
    """Picks what stands at these places, of which there is at least one."""
    return itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))


class Figures(NamedTuple):
    """What is summed of steps of which there is at least one: when they began, how long they took, their samples and
    their phases."""

    t: tuple[int, ...]
    dur_ns: tuple[int, ...]
    samples: tuple[int | None, ...]
    phases: Maps

    def end_ns(self) -> int:
        """When the last of them was over."""
        end: int = max(map(add, self.t, self.dur_ns))
        return end

    def some(self, places: Sequence[int]) -> Figures:
        """Those of the steps at these places alone, of which there is at least one."""
        if len(places) == len(self.t):
            return self
        pick = _picking(places)
        return Figures(pick(self.t), pick(self.dur_ns), pick(self.samples), self.phases.some(pick))


class Columns:
    """Steps, of which there is at least one, and the values of each of their fields, in the order of Step's."""

    def __init__(self, steps: Sequence[Step], fields: list[tuple[Any, ...]] | None = None) -> None:
        self.steps = steps
        self.fields = list(zip(*map(msgspec.structs.astuple, steps), strict=True)) if fields is None else fields
        self.run_id: tuple[str, ...] = self.fields[_RUN]
        self._maps: dict[int, Maps] = {}

    @property
    def figures(self) -> Figures:
        """What is summed of them."""
        return Figures(self.fields[_T], self.fields[_DUR], self.fields[_SAMPLES], self.maps(_PHASES))

    def maps(self, index: int) -> Maps:
        """A field that is a map. Raises TypeError where one of them is missing."""
        found = self._maps.get(index)
        if found is None:
            found = self._maps[index] = maps_of(self.fields[index])
        return found

    def some(self, places: Sequence[int]) -> Columns:
        """The steps at these places alone, of which there is at least one."""
        pick = _picking(places)
        return Columns(pick(self.steps), list(map(pick, self.fields)))

    def plausible(self) -> bool:
        """Whether all figures can be meant: see `records.implausible`."""
        t, dur_ns, samples, phases = self.figures
        same = samples[0] is not None and samples.count(samples[0]) == len(samples)
        figures: list[Sequence[int]] = [t, dur_ns, list(filter(None, samples[:1] if same else samples))]
        if phases.columns is not None:
            figures += phases.columns
        else:
            figures.append(list(chain.from_iterable(map(dict.values, phases.maps))))
        return all(not some or 0 <= min(some) <= max(some) < MAX_INT for some in figures)

    def alike(self) -> bool:
        """Whether what tells of a step if it trains is the same in all: then those of a run are all of a kind."""
        told = [self.fields[index] for index in _TELLING]
        same = all(column.count(column[0]) == len(column) for column in told)
        return same and self.fields[_HAD_BACKWARD][0] is not None

    def by_run(self) -> dict[str, list[int]]:
        """The places of each run's steps."""
        if self.run_id.count(self.run_id[0]) == len(self.run_id):
            return {self.run_id[0]: list(range(len(self.run_id)))}
        places: dict[str, list[int]] = {run_id: [] for run_id in dict.fromkeys(self.run_id)}
        for place, mine in enumerate(map(places.__getitem__, self.run_id)):
            mine.append(place)
        return places
