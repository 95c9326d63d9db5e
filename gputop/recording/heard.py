"""What a recording that is continued holds of a run: a publisher tells each new recorder its last two minutes again.

A publisher's records keep their distance from its `run` record, whatever the clock of the recorder that heard them; so
times are compared as distances from that.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gputop.recording.kinds import Kinds
from gputop.recording.schema import TABLES
from gputop.records import Alive, Event, Fold, Loader, Model, Profile, Record, Run, Site, Step, supersede

S = 1_000_000_000

TAIL_ROWS = 200
"""Rows of `second` among which a run's last step is looked for: they come nearly in order."""

COUNTED_NS = 3 * S
"""Before a run's last step: its steps there are known one by one, to be taken out of a sum that holds some of them."""

LATELY_NS = 3600 * S
"""How far back the signs of life are compared that come once a second. A publisher holds half an hour of them."""

ONCE = (Loader, Model, Event, Profile, Alive, Site, Fold)
"""Records that a run says once at one time (of sums, those of counted steps), and of these the ones that are few, so
that all of them are looked at."""
FEW = (Loader, Model, Event, Profile)


class Held(msgspec.Struct):
    """One run as the file had it when it was opened. Times are distances from the run's own `t`.

    `end` is when the newest step ended, `last` are the starts of those that ended then (None: not known), `trained`
    when the newest train step ended, `starts` the train steps before that which lie in the file, None where they were
    thinned.
    """

    run: Run
    end: int
    last: frozenset[int] | None
    trained: int
    starts: list[int] | None
    told: frozenset[tuple[object, ...]]
    base: int


class Heard:
    """Tells what is new of what comes in. Asks the file once for each run that it held when it was opened."""

    def __init__(self, db: sqlite3.Connection, runs: dict[str, int]) -> None:
        self._db = db
        self._numbers = dict(runs)
        self._held: dict[str, Held | None] = {}

    def new(self, records: Sequence[Record], kinds: dict[str, Kinds]) -> list[Record]:
        """The records without those that the file holds; `kinds` learns from them too. Raises sqlite3.Error."""
        out: list[Record] = []
        for record in records:
            run_id = getattr(record, "run_id", None)
            held = self._of(run_id) if run_id in self._numbers else None
            if held is None:
                out.append(record)
            elif isinstance(record, Run):
                if self._supersedes(held, record):
                    out.append(record)
            elif isinstance(record, Step):
                if not _holds_step(held, record):
                    out.append(record)
                else:
                    kinds.setdefault(record.run_id, Kinds()).trains(record)
            elif isinstance(record, Fold):
                if record.counted:
                    if _told(record, held.base) not in held.told:
                        out.append(record)
                elif (rest := _rest(held, record)) is not None:
                    out.append(rest)
            elif not isinstance(record, ONCE) or _told(record, held.base) not in held.told:
                out.append(record)
        return out

    def _supersedes(self, held: Held, run: Run) -> bool:
        """Whether a `run` record says something that the file doesn't. One of another process is another run."""
        if run.offset_ns != held.run.offset_ns or run.pid != held.run.pid:
            self._held[run.run_id] = None
            return True
        held.base = run.t
        now = supersede(held.run, run)
        changed, held.run = now != held.run, now
        return changed

    def _of(self, run_id: str) -> Held | None:
        if run_id not in self._held:
            self._held[run_id] = self._look(run_id, self._numbers[run_id])
        return self._held[run_id]

    def _look(self, run_id: str, number: int) -> Held | None:
        """What the file has of a run; None where it has no publisher, which alone tells a thing again."""
        from gputop.recording.reader import Recording

        rows = list(Recording(Path(""), connection=self._db).rows(Run, "run_id = ?", (run_id,)))
        runs = [(seq, record) for seq, record in rows if isinstance(record, Run)]
        if not runs or runs[-1][1].offset_ns is None:
            return None
        whole = runs[0][1]
        for _, one in runs[1:]:
            whole = supersede(whole, one)
        bases = _Bases([seq for seq, _ in runs], [one.t for _, one in runs])
        chunk, trained = self._trained(number, bases)
        steps = self._steps(number, bases, self._number_of(chunk - int(COUNTED_NS // S)))
        trained = max([trained, *(end for _, end, train in steps if train)])
        end = max([trained, *(end for _, end, _ in steps)])
        last = frozenset(start for start, one, _ in steps if one == end)
        starts = sorted(start for start, one, train in steps if train and one > trained - COUNTED_NS)
        return Held(
            run=whole, end=end, last=last or None, trained=trained, base=whole.t,
            starts=None if self._thinned(number, bases, trained) else starts,
            told=frozenset(self._said(number, bases)),
        )  # fmt: skip

    def _trained(self, number: int, bases: _Bases) -> tuple[int, int]:
        """The chunk of a run's last train steps, and when the newest of them ended, also where they were thinned."""
        rows = self._db.execute(
            "SELECT chunk, t, width_ns, (SELECT last_seq FROM chunk WHERE id = chunk) FROM second WHERE run = ? "
            "ORDER BY chunk DESC, id DESC LIMIT ?",
            (number, TAIL_ROWS),
        ).fetchall()
        folds = [
            bases.of(seq, t) + dur_ns
            for seq, t, dur_ns in self._db.execute(
                "SELECT seq, t, dur_ns FROM fold WHERE run = ? ORDER BY seq DESC LIMIT ?", (number, TAIL_ROWS)
            )
        ]
        exact = [bases.of(seq or 0, t) + width for _, t, width, seq in rows if width != S]  # else it came summed
        return max((row[0] for row in rows), default=1), max([*exact, *folds], default=-(2**62))

    def _steps(self, number: int, bases: _Bases, from_seq: int) -> list[tuple[int, int, bool]]:
        """A run's last steps of any kind: when each began and ended, and whether the sums count it."""
        rows = self._db.execute("SELECT seq, t, dur_ns, train FROM step WHERE seq >= ? AND run = ?", (from_seq, number))
        return [((start := bases.of(seq, t)), start + dur_ns, bool(train)) for seq, t, dur_ns, train in rows]

    def _thinned(self, number: int, bases: _Bases, trained: int) -> bool:
        rows = self._db.execute("SELECT seq, t FROM fold WHERE run = ? ORDER BY seq DESC LIMIT 1", (number,)).fetchall()
        return any(bases.of(seq, t) > trained - COUNTED_NS - S for seq, t in rows)

    def _said(self, number: int, bases: _Bases) -> list[tuple[object, ...]]:
        """What a run says once at one time, as far back as a publisher may say it again."""
        lately = self._db.execute(
            "SELECT min(first_seq) FROM chunk WHERE to_ns >= (SELECT max(to_ns) FROM chunk) - ?", (LATELY_NS,)
        ).fetchone()[0]
        out: list[tuple[object, ...]] = []
        for cls in ONCE:
            what = "kind" if cls is Event else "loader_id" if cls is Loader else "NULL"
            rows = self._db.execute(
                f"SELECT seq, t, {what} FROM {TABLES[cls].name} WHERE seq >= ? AND run = ?",
                (0 if cls in FEW else lately or 0, number),
            )
            out += [(cls, bases.of(seq, t), more) for seq, t, more in rows]
        return out

    def _number_of(self, chunk: int) -> int:
        row = self._db.execute("SELECT min(first_seq) FROM chunk WHERE id >= ?", (chunk,)).fetchone()
        return row[0] or 0


class _Bases(msgspec.Struct, frozen=True):
    """From which time a run's rows count: a recorder's clock holds from its `run` row on."""

    seqs: list[int]
    times: list[int]

    def of(self, seq: int, t: int) -> int:
        """The distance of a row's time from the `run` record that it came with."""
        return t - self.times[max(0, bisect_right(self.seqs, seq) - 1)]


def _told(record: Record, base: int) -> tuple[object, ...]:
    more = record.kind if isinstance(record, Event) else record.loader_id if isinstance(record, Loader) else None
    return type(record), record.t - base, more


def _holds_step(held: Held, step: Step) -> bool:
    start = step.t - held.base
    end = start + step.dur_ns
    return end < held.end or (end == held.end and (held.last is None or start in held.last))


def _rest(held: Held, fold: Fold) -> Fold | None:
    """A sum without the steps that the file holds; None where that leaves none.

    Train steps follow on one another: the sum ends `dur_ns` after it begins.
    """
    upto = held.end if fold.kind == "eval" else held.trained
    start = fold.t - held.base
    end = start + fold.dur_ns
    if start >= upto:
        return fold
    if end <= upto:
        return None
    share = (end - upto) / fold.dur_ns
    steps = round(fold.steps * share)
    if held.starts is not None and fold.kind != "eval":
        steps = fold.steps - (len(held.starts) - bisect_left(held.starts, start))
    if steps <= 0:
        return None
    return msgspec.structs.replace(
        fold, t=upto + held.base, steps=steps, dur_ns=end - upto,
        phases_ns={phase: round(ns * share) for phase, ns in fold.phases_ns.items()},
        samples=None if fold.samples is None else round(fold.samples * steps / fold.steps),
    )  # fmt: skip
