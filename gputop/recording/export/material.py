"""What is exported: a stretch of records that can be read again and again, and the runs that it tells of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from gputop.records import AnyRecord, Record, Run


class Material(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch of a recording.

    `read(types)` gives its records of these types (None: of all) in arrival order, anew at each call. `runs` are the
    runs by run_id, as far as they are known beforehand. `from_ns` is the first moment of the whole recording.
    """

    read: Callable[[Sequence[type[Record]] | None], Iterator[AnyRecord]]
    runs: dict[str, Run]
    from_ns: int


def of_records(records: Sequence[AnyRecord]) -> Material:
    """A material of records held in memory."""

    def read(types: Sequence[type[Record]] | None) -> Iterator[AnyRecord]:
        wanted = None if types is None else tuple(types)
        return (record for record in records if wanted is None or isinstance(record, wanted))

    runs = {record.run_id: record for record in records if isinstance(record, Run)}
    return Material(read=read, runs=runs, from_ns=min((record.t for record in records), default=0))
