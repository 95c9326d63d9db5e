"""The stretch of a file that a command exports: read again and again, as it lies in the file, with progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import msgspec

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.progress import Progress
from gputop.cli.recorded import recorded
from gputop.recording.export.material import Material
from gputop.records import AnyRecord, Record, Run, Step, supersede

Read = Callable[[int | None, int | None, Sequence[type[Record]] | None], Iterator[AnyRecord]]
"""Reads the records between two moments of these types, in order of arrival; None: without that bound."""

TOLD_EVERY = 1000
"""Records between two words of how far it is."""


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """What a file holds, and how it is read; `warnings` fills as it is."""

    from_ns: int
    to_ns: int
    steps: int
    records: int
    runs: dict[str, Run]
    read: Read
    warnings: list[str]


class Stretch(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a file; None: from its beginning, to its end. `share` is its share of the file's time (0-1)."""

    contents: Contents
    from_ns: int | None
    to_ns: int | None

    @property
    def share(self) -> float:
        first, last = self.bounds
        return (last - first) / max(1, self.contents.to_ns - self.contents.from_ns)

    @property
    def bounds(self) -> tuple[int, int]:
        """Its first and last moment."""
        one = self.contents
        first = one.from_ns if self.from_ns is None else self.from_ns
        return first, one.to_ns if self.to_ns is None else self.to_ns

    def material(self, progress: Progress, passes: int) -> Material:
        """What is handed to a format that reads it `passes` times."""
        first, last = self.bounds
        done = 0

        def read(types: Sequence[type[Record]] | None) -> Iterator[AnyRecord]:
            nonlocal done
            for number, record in enumerate(self.contents.read(self.from_ns, self.to_ns, types)):
                if not number % TOLD_EVERY:
                    progress((done + min(1.0, (record.t - first) / max(1, last - first))) / passes)
                yield record
            done += 1

        return Material(read=read, runs=self.contents.runs, from_ns=self.contents.from_ns)


@contextmanager
def opened(path: Path) -> Iterator[Contents]:
    """What is in a file, for the block: a recording, or a trace in JSON Lines, which is read line by line each time.

    Raises Failure with code 3 where it can't be read.
    """
    from gputop.recording.errors import Unreadable
    from gputop.recording.header import first_bytes, is_sqlite

    try:
        sqlite = is_sqlite(first_bytes(path))
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    if not sqlite:
        try:
            yield _trace(path)
        except Unreadable as error:
            raise Failure(str(error), UNREADABLE) from None
        return
    with recorded(path) as recording:
        info = recording.info()

        def read(from_ns: int | None, to_ns: int | None, types: Sequence[type[Record]] | None) -> Iterator[AnyRecord]:
            return recording.records(from_ns=from_ns, to_ns=to_ns, types=types)

        yield Contents(
            from_ns=info.from_ns, to_ns=info.to_ns, steps=info.steps, records=info.records, read=read,
            runs={span.run.run_id: span.run for span in info.runs}, warnings=recording.warnings,
        )  # fmt: skip


def _trace(path: Path) -> Contents:
    """What a trace holds: read once to know. As a recording it would lose steps: very fast loops are summed."""
    from gputop.sources.trace import TraceReader

    def lines(reader: TraceReader) -> Iterator[AnyRecord]:
        return (record for record in reader if not TraceReader.made_up(record))

    def read(from_ns: int | None, to_ns: int | None, types: Sequence[type[Record]] | None) -> Iterator[AnyRecord]:
        wanted = None if types is None else tuple(types)
        for record in lines(TraceReader(path)):
            inside = (from_ns is None or record.t >= from_ns) and (to_ns is None or record.t <= to_ns)
            if inside and (wanted is None or isinstance(record, wanted)):
                yield record

    reader, progress, size = TraceReader(path), Progress(f"reading {path.name}"), max(1, path.stat().st_size)
    first: int | None = None
    last = steps = records = 0
    runs: dict[str, Run] = {}
    try:
        for record in lines(reader):
            if not records % TOLD_EVERY:
                progress(reader.position / size)
            records += 1
            first = record.t if first is None else min(first, record.t)
            last = max(last, record.t + (record.dur_ns if isinstance(record, Step) else 0))
            steps += isinstance(record, Step)
            if isinstance(record, Run):
                known = runs.get(record.run_id)
                runs[record.run_id] = record if known is None else supersede(known, record)
    finally:
        progress.clear()
    return Contents(
        from_ns=first or 0, to_ns=last, steps=steps, records=records, runs=runs, read=read, warnings=reader.warnings
    )


def stretch(contents: Contents, from_: str | None, until: str | None) -> Stretch:
    """The part that --from and --until name. Raises click.UsageError."""
    first = None if from_ is None else _moment(contents, "--from", from_)
    last = None if until is None else _moment(contents, "--until", until)
    if first is not None and last is not None and first >= last:
        raise click.UsageError("--until must come after --from")
    return Stretch(contents=contents, from_ns=first, to_ns=last)


def _moment(contents: Contents, option: str, text: str) -> int:
    from gputop.tui.goto import Nowhere, place
    from gputop.view import Cursor

    cursor = Cursor(
        from_ns=contents.from_ns, to_ns=contents.to_ns, at_ns=contents.from_ns, live=False, playing=False, speed=1.0,
        replay=True, at_end=False, skip_idle=False, causes=(), marks=(),
    )  # fmt: skip
    try:
        found = place(text, cursor, from_start=True)
    except Nowhere as error:
        raise click.UsageError(f"{option}: {error}") from None
    if found.t_ns is not None:
        return found.t_ns
    for record in contents.read(None, None, (Step,)):
        if isinstance(record, Step) and record.n >= (found.step or 0):
            return record.t
    raise click.UsageError(f"{option}: there is no step {found.step} in this recording")
