"""Finding steps in a recording: by number, and the one before a moment."""

from __future__ import annotations

from collections.abc import Mapping, Set

from gputop.recording.kinds import kind_of
from gputop.recording.reader import Recording
from gputop.records import Step, end_of

S = 1_000_000_000

BACK_NS = 20 * S
"""How far back a step is looked for first; then ever further."""

Loaders = Mapping[str, Set[int | None]]
"""By run, the loaders whose batches were followed by backward."""


def trains(step: Step, run_id: str | None, backward: Loaders) -> bool:
    """Whether a step is a finished train step of a run (None: of any)."""
    if run_id not in (None, step.run_id) or step.partial:
        return False
    return kind_of(step, backward.get(step.run_id, frozenset())) != "eval"


def numbered_from(recording: Recording, last_seq: int, n: int, run_id: str | None) -> Step | None:
    """A run's step `n`, or the first one held after it: a run's steps come in the order of their numbers."""
    low, high = 0, last_seq
    found: Step | None = None
    while low < high:
        middle = (low + high) // 2
        seq, step = _after(recording, middle, last_seq, run_id)
        if step is None or step.n >= n:
            found, high = step if step is not None else found, middle
        else:
            low = seq
    return found


def _after(recording: Recording, seq: int, last_seq: int, run_id: str | None) -> tuple[int, Step | None]:
    """The first step of a run that came later than a number, and its own number."""
    for number, record in recording.numbered(after_seq=seq, upto_seq=last_seq, types=(Step,)):
        if isinstance(record, Step) and run_id in (None, record.run_id):
            return number, record
    return last_seq, None


def before(recording: Recording, span: tuple[int, int], run_id: str | None, backward: Loaders) -> Step | None:
    """The last train step of a run that was over earlier than the end of `span` (from, to)."""
    from_ns, at_ns = span
    back = BACK_NS
    while True:
        found = [
            one
            for one in recording.records(from_ns=at_ns - back, to_ns=at_ns, types=(Step,))
            if isinstance(one, Step) and end_of(one) < at_ns and trains(one, run_id, backward)
        ]
        if found or at_ns - back <= from_ns:
            return max(found, key=end_of, default=None)
        back *= 8
