"""Which chunks tell of a stretch of time: those written about then, and the few that brought what was long past."""

from __future__ import annotations

import sqlite3

import msgspec

S = 1_000_000_000

LATE_NS = 180 * S
"""A chunk that tells of more time than this is looked at by itself: a slow run's backlog reaches back as far as the
4 MB of its publisher's ring do, which may be an hour."""


class Chunk(msgspec.Struct, frozen=True):
    """A row of `chunk`: a transaction's number, when its records were, and their numbers."""

    id: int
    from_ns: int
    to_ns: int
    first_seq: int
    last_seq: int


class TimeIndex:
    """Finds chunks by time in a file that may still grow. All methods raise sqlite3.Error."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._looked = 0
        self._wide: list[Chunk] = []

    def chunks(self, from_ns: int, to_ns: int) -> tuple[int, int] | None:
        """The first and last chunk with records of a stretch of time; None when there is none."""
        return self._reach("id", "id", from_ns, to_ns)

    def numbers(self, from_ns: int, to_ns: int) -> tuple[int, int] | None:
        """The numbers between which all records of a stretch of time lie; None when there are none."""
        return self._reach("first_seq", "last_seq", from_ns, to_ns)

    def last_number(self, t_ns: int) -> int:
        """The last number of the chunks that tell of a moment, but for the wide ones; 0 when there is none."""
        found = self._db.execute(
            "SELECT max(last_seq) FROM chunk WHERE to_ns >= ? AND to_ns <= ? AND from_ns <= ? AND to_ns - from_ns <= ?",
            (t_ns, min(t_ns + LATE_NS, 2**63 - 1), t_ns, LATE_NS),
        ).fetchone()[0]
        return found or 0

    def _reach(self, first: str, last: str, from_ns: int, to_ns: int) -> tuple[int, int] | None:
        """The least `first` and the greatest `last` of the chunks that tell of a stretch of time.

        By `to_ns` alone the index would lead through all later chunks: so it is bounded, and wide ones are known.
        """
        low, high = self._db.execute(
            f"SELECT min({first}), max({last}) FROM chunk WHERE to_ns >= ? AND to_ns <= ? AND from_ns <= ?",
            (from_ns, min(to_ns + LATE_NS, 2**63 - 1), to_ns),
        ).fetchone()
        found = [(low, high)] if low is not None else []
        for one in self.wide():
            if one.to_ns >= from_ns and one.from_ns <= to_ns:
                found.append((getattr(one, first), getattr(one, last)))
        return (min(low for low, _ in found), max(high for _, high in found)) if found else None

    def wide(self) -> list[Chunk]:
        """The chunks that tell of more than LATE_NS."""
        newest = self._db.execute("SELECT max(id) FROM chunk").fetchone()[0] or 0
        if newest > self._looked:
            rows = self._db.execute(
                "SELECT id, from_ns, to_ns, first_seq, last_seq FROM chunk "
                "WHERE id > ? AND id <= ? AND to_ns - from_ns > ?",
                (self._looked, newest, LATE_NS),
            )
            self._wide += [Chunk(*row) for row in rows.fetchall()]
            self._looked = newest
        return self._wide
