"""What one commit writes: the records to keep in order, which of them are train steps, and the train steps by run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gputop.recording.kinds import Kinds
from gputop.recording.thinning import EXACT_RATE, thin
from gputop.records import Fold, Loader, Model, Record, Run, Step, end_of

DESCRIBING = (Run, Loader, Model)
"""Records that describe a run, whose times are not the time they tell of."""


class Chunk(msgspec.Struct):
    """A commit's records, each with whether it is a train step that the tiers count.

    `trained` holds the train steps by run, also those that thinning left out of the records; `folds` those that came
    summed. `steps` counts all steps, also those.
    """

    records: list[tuple[Record, bool]]
    trained: dict[str, list[Step]]
    folds: list[Fold]
    steps: int

    def span(self, now_ns: int) -> tuple[int, int]:
        """From when to when the records tell of; now, where they only describe."""
        told = [record for record, _ in self.records if type(record) not in DESCRIBING]
        if not told:
            return now_ns, now_ns
        ends = [one.t + one.dur_ns if type(one) is Step else end_of(one) for one in told]
        return min([record.t for record in told]), max(ends)


def gather(pending: Sequence[Record], kinds: dict[str, Kinds], *, thins: bool = True) -> Chunk:
    """What to write of the records that wait; `kinds` knows of each run which of its loops train.

    Without `thins` every step is kept: a temporary recording holds what a trace holds.
    """
    records: list[tuple[Record, bool]] = []
    trained: dict[str, list[Step]] = {}
    counts: dict[str, int] = {}
    for record in pending:
        train = False
        if type(record) is Step:
            run_id = record.run_id
            counts[run_id] = counts.get(run_id, 0) + 1
            mine = kinds.get(run_id)
            if mine is None:
                mine = kinds[run_id] = Kinds()
            train = mine.trains(record) and not record.partial
            if train:
                if run_id in trained:
                    trained[run_id].append(record)
                else:
                    trained[run_id] = [record]
        records.append((record, train))
    folds = [one for one, _ in records if type(one) is Fold and one.kind in (None, "train") and one.steps > 0]
    fast = {run_id for run_id, count in counts.items() if count > EXACT_RATE and thins}
    if fast:
        records = _thinned(records, fast)
    return Chunk(records, trained, folds, sum(counts.values()) + sum(one.steps for one in folds))


def _thinned(records: list[tuple[Record, bool]], fast: set[str]) -> list[tuple[Record, bool]]:
    """The records without those steps of very fast runs that are only summed; the sums come last."""
    left: set[int] = set()
    sums: list[tuple[Record, bool]] = []
    for run_id in sorted(fast):
        mine = [(step, train) for step, train in records if isinstance(step, Step) and step.run_id == run_id]
        result = thin([step for step, _ in mine], [train for _, train in mine])
        if result.folds:
            left |= {id(step) for step, _ in mine} - {id(step) for step in result.kept}
            sums += [(fold, False) for fold in result.folds]
    return [pair for pair in records if id(pair[0]) not in left] + sums
