"""What one commit writes: the records to keep in order, which of them are train steps, and the train steps by run."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import msgspec

from gputop.recording.columns import Columns, Figures
from gputop.recording.kinds import Kinds
from gputop.recording.thinning import EXACT_RATE, thin
from gputop.records import Fold, Loader, Model, Record, Run, Step, end_of, implausible

DESCRIBING = (Run, Loader, Model)
"""Records that describe a run, whose times are not the time they tell of."""


class Chunk(msgspec.Struct):
    """A commit's records: steps and others, each with its place among them all.

    `trains` says of each step whether the tiers count it. `trained` holds the train steps by run, also those that
    thinning left out of `steps`; `folds` those that came summed. `counted` counts all train steps, also those.
    `columns` are those of `steps`, None where there are none.
    """

    steps: list[Step]
    places: Sequence[int]
    trains: list[bool]
    others: list[tuple[int, Record]]
    trained: dict[str, Figures]
    folds: list[Fold]
    counted: int
    columns: Columns | None = None

    def __len__(self) -> int:
        return len(self.steps) + len(self.others)

    def span(self, now_ns: int) -> tuple[int, int]:
        """From when to when the records tell of; now, where they only describe."""
        told = [one for _, one in self.others if type(one) not in DESCRIBING]
        starts, ends = [one.t for one in told], [end_of(one) for one in told]
        if self.columns is not None:
            starts.append(min(self.columns.figures.t))
            ends.append(self.columns.figures.end_ns())
        return (min(starts), max(ends)) if starts else (now_ns, now_ns)


def gather(pending: Sequence[Record], kinds: dict[str, Kinds], *, thins: bool = True) -> Chunk:
    """What to write of the records that wait; `kinds` knows of each run which of its loops train.

    Steps whose figures can't be meant are left out. Without `thins` every step is kept: a temporary recording holds
    what a trace holds.
    """
    chunk = _apart(pending)
    chunk.folds = [
        one for _, one in chunk.others if type(one) is Fold and one.kind in (None, "train") and one.steps > 0
    ]
    chunk.counted = sum(one.steps for one in chunk.folds)
    if not chunk.steps:
        return chunk
    chunk.columns = columns = Columns(chunk.steps)
    if not columns.plausible():
        return gather([one for one in pending if implausible(one) is None], kinds, thins=thins)
    runs = columns.by_run()
    chunk.trains = _train(columns, runs, kinds)
    every = all(chunk.trains)
    chunk.counted += sum(chunk.trains)
    for run_id, places in runs.items():
        mine = places if every else [place for place in places if chunk.trains[place]]
        if mine:
            chunk.trained[run_id] = columns.figures.some(mine)
    fast = [run_id for run_id, places in runs.items() if len(places) > EXACT_RATE]
    return _thinned(pending, chunk, runs, fast) if fast and thins else chunk


def _apart(records: Sequence[Record]) -> Chunk:
    """The steps and the others."""
    steps = [record for record in records if type(record) is Step]
    if len(steps) == len(records):
        return Chunk(steps, range(len(steps)), [], [], {}, [], 0)
    places = [place for place, record in enumerate(records) if type(record) is Step]
    others = [(place, record) for place, record in enumerate(records) if type(record) is not Step]
    return Chunk(steps, places, [], others, {}, [], 0)


def _train(columns: Columns, runs: dict[str, list[int]], kinds: dict[str, Kinds]) -> list[bool]:
    """Of each step whether the tiers count it: a train step that was not cut short."""
    steps = columns.steps
    if not columns.alike():
        trains = [False] * len(steps)
        for run_id, places in runs.items():
            mine = kinds.setdefault(run_id, Kinds())
            for place in places:
                trains[place] = mine.trains(steps[place]) and not steps[place].partial
        return trains
    told = {run_id: kinds.setdefault(run_id, Kinds()).trains(steps[places[0]]) for run_id, places in runs.items()}
    if steps[0].partial or not any(told.values()):
        return [False] * len(steps)
    return [True] * len(steps) if all(told.values()) else [told[step.run_id] for step in steps]


def _thinned(records: Sequence[Record], whole: Chunk, runs: dict[str, list[int]], fast: list[str]) -> Chunk:
    """The chunk without those steps of very fast runs that are only summed; the sums come last."""
    left: set[int] = set()
    sums: list[Record] = []
    for run_id in sorted(fast):
        steps = [whole.steps[place] for place in runs[run_id]]
        result = thin(steps, [whole.trains[place] for place in runs[run_id]])
        if result.folds:
            left |= {id(step) for step in steps} - {id(step) for step in result.kept}
            sums += result.folds
    kept = _apart([record for record in records if id(record) not in left] + sums)
    kept.trains = list(compress(whole.trains, [id(step) not in left for step in whole.steps]))
    kept.columns = Columns(kept.steps) if kept.steps else None
    kept.trained, kept.folds, kept.counted = whole.trained, whole.folds, whole.counted
    return kept
