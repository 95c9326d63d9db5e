"""The ranks of a large job side by side, by figures that are kept anyway: which of them matter, which are as usual.

What a rank does by itself is compared (see diagnosis/ranks.py for the full account of few): its step is as long as
everybody's, since all wait for the last one.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from gputop.tracks import RunTrack

SHARED = frozenset(("comm", "sync"))
"""Phases in which a rank waits for others, or may."""

UNMARKED = frozenset(("backward", "optimizer"))
"""The same where no rank marks its exchange: it then lies within backward."""

SHOWN = 32
"""Ranks by which a job of more is shown: enough to tell a straggler from a collective."""

LATEST = 10
"""Steps of a rank of which the device's time in the exchange is looked at."""

OUTSTANDING = 4
"""Ranks that are shown of those that do most by themselves, and as many of those that wait least for others."""

ALIKE = 0.05
"""Part of the step by which a phase of its own may differ between ranks that are alike: half of what makes one late."""

SILENT = 3.0
"""Steps since a rank's last one, beyond those since the usual rank's, from which it does not go on like it."""


class Standing(NamedTuple):
    """A rank's mean times, ms: of each phase that is its own, of its step, of its device in the exchange (None: not
    known); `to_ns`: when its last step ended."""

    own: dict[str, float]
    step_ms: float
    exchange_ms: float | None
    to_ns: int

    @property
    def own_ms(self) -> float:
        """What it does by itself."""
        return sum(self.own.values())


class Job:
    """A job's ranks that go on, at a moment, and where each stands."""

    def __init__(self, tracks: Iterable[RunTrack], now_ns: int) -> None:
        self.tracks = list(tracks)
        sums = {track.run.run_id: _sums(track, now_ns) for track in self.tracks}
        marked = any("comm" in found[2] for found in sums.values() if found is not None)
        shared, meeting = (SHARED, "comm") if marked else (SHARED | UNMARKED, "backward")
        self._known = [
            (track, _standing(track, found, shared, meeting))
            for track in self.tracks
            if (found := sums[track.run.run_id]) is not None
        ]
        self.standings = {track.run.run_id: at for track, at in self._known}

    @cached_property
    def outstanding(self) -> list[RunTrack]:
        """The ranks that do most by themselves, and those that wait least for others; the foremost first."""
        busiest = sorted(self._known, key=lambda one: -one[1].own_ms)[:OUTSTANDING]
        met = [(track, at.exchange_ms) for track, at in self._known if at.exchange_ms is not None]
        quickest = sorted(met, key=lambda one: one[1])[:OUTSTANDING]
        return list({track.run.run_id: track for track, _ in (*busiest, *quickest)}.values())

    @cached_property
    def shown(self) -> list[RunTrack]:
        """At most SHOWN ranks, in order: the outstanding ones, and others evenly taken from all there are."""
        chosen = {track.run.run_id for track in self.outstanding}
        others = [track for track in self.tracks if track.run.run_id not in chosen]
        stride = max(1, -(-len(others) // (SHOWN - len(chosen))))
        chosen.update(track.run.run_id for track in others[::stride])
        return [track for track in self.tracks if track.run.run_id in chosen]

    @cached_property
    def usual(self) -> RunTrack | None:
        """The rank in the middle by what it does by itself."""
        known = sorted(self._known, key=lambda one: one[1].own_ms)
        return known[len(known) // 2][0] if known else None

    def alike(self, one: RunTrack, other: RunTrack) -> bool:
        """Whether two ranks spend their time alike and both go on."""
        here, there = self.standings.get(one.run.run_id), self.standings.get(other.run.run_id)
        if here is None or there is None:
            return False
        slack = ALIKE * max(here.step_ms, there.step_ms)
        silent = abs(here.to_ns - there.to_ns) / 1e6 > SILENT * max(here.step_ms, there.step_ms)
        pairs = [(here.own.get(phase, 0.0), there.own.get(phase, 0.0)) for phase in here.own.keys() | there.own.keys()]
        if here.exchange_ms is not None and there.exchange_ms is not None:
            pairs.append((here.exchange_ms, there.exchange_ms))
        return not silent and all(
            abs(mine - theirs) <= slack for mine, theirs in (*pairs, (here.step_ms, there.step_ms))
        )


COLUMNS = 3
"""Columns of a rank's history that are summed up: four to six seconds."""

_Sums = tuple[int, float, dict[str, float]]
"""Steps counted, their time, and that of each phase, ns."""


def _sums(track: RunTrack, now_ns: int) -> _Sums | None:
    """The latest columns together; None where no step is in them."""
    last = now_ns // track.fine.width_ns
    held = track.fine.held(last - COLUMNS + 1, last)
    if not held:
        return None
    count, whole, parts = 0, 0.0, dict[str, float]()
    for bucket in held:
        count += bucket.count
        whole += bucket.total
        for name, ns in (bucket.parts or {}).items():
            parts[name] = parts.get(name, 0.0) + ns
    return count, whole, parts


def _standing(track: RunTrack, sums: _Sums, shared: frozenset[str], meeting: str) -> Standing:
    count, whole, parts = sums
    ms = 1e6 * count
    own = {name: ns / ms for name, ns in parts.items() if name not in shared}
    own["other"] = max(0.0, whole - sum(parts.values())) / ms
    return Standing(own, whole / ms, _exchange_ms(track, meeting), track.last_end or 0)


def _exchange_ms(track: RunTrack, meeting: str) -> float | None:
    if not track.steps or track.steps[-1].gpu_ns is None:
        return None
    latest = islice(reversed(track.steps), LATEST)
    times = [step.gpu_ns[meeting] for step in latest if step.gpu_ns is not None and meeting in step.gpu_ns]
    return sum(times) / len(times) / 1e6 if times else None
