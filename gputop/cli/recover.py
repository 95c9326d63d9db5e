"""`gputop recover FILE`: save what can be saved of a damaged recording."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.options import debug_option
from gputop.cli.progress import Progress
from gputop.cli.recorded import answering, shown, tell
from gputop.figures import count, counted
from gputop.recording.errors import Unreadable

if TYPE_CHECKING:
    from gputop.recording.recover import Gap, Recovery
    from gputop.records import AnyRecord
    from gputop.sources.trace import TraceReader

NAMED_GAPS = 5


@click.command()
@debug_option
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(path_type=Path, readable=False),
    metavar="OUT",
    help="The recording to write.",
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
def command(file: Path, out: Path | None, force: bool) -> int:
    """Save what can be saved of a damaged recording, into a new one: FILE.recovered.gputop unless -o says otherwise.

    FILE is a recording that is cut off, overwritten in places or half copied, or a broken trace in JSON Lines. It is
    only read; so is FILE-wal, if it is there.
    """
    out = beside(file, "recovered") if out is None else out
    progress = Progress("recovering")
    try:
        found = _recover(file, out, force, progress)
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    except OSError as error:
        raise cannot_write(error, out) from None
    finally:
        progress.clear()
    tell(list(found.warnings))
    with answering():
        print("\n".join(_told(out, found)))
    return 0


def _told(out: Path, found: Recovery) -> Iterator[str]:
    saved = counted(sum(found.saved.values()), "record")
    yield f"{shown(out)}: {saved} saved ({by_type(found.saved)}), {_span(found)}"
    if found.missing:
        yield f"missing: {counted(found.missing, 'record')}"
        yield from (f"  {_gap(gap)}" for gap in _worst(found))
        if len(found.gaps) > NAMED_GAPS:
            yield f"  and less at {counted(len(found.gaps) - NAMED_GAPS, 'other place')}"
    elif found.whole:
        yield "nothing is missing"


def _recover(file: Path, out: Path, force: bool, progress: Progress) -> Recovery:
    from gputop.recording.header import first_bytes, is_sqlite
    from gputop.recording.recover import recover, rescue
    from gputop.sources.trace import TraceReader

    try:
        return recover(file, out, force=force, progress=progress)
    except Unreadable:
        if is_sqlite(head := first_bytes(file)) or b"\0" in head:
            raise
    reader = TraceReader(file)
    found = rescue(file, given(reader, progress), out, force=force)
    return found.with_warnings(reader.warnings)


def given(reader: TraceReader, progress: Callable[[float], None]) -> Iterator[AnyRecord]:
    """The records of a trace, without the runs that reading it makes up for steps of unknown ones."""
    size = max(1, reader.path.stat().st_size)
    for number, record in enumerate(reader):
        if not number % 1000:
            progress(reader.position / size)
        if not reader.made_up(record):
            yield record


def beside(file: Path, what: str, suffix: str = ".gputop") -> Path:
    """The usual name of a file made from another: train.gputop, train.recovered.gputop."""
    name = file.name.removesuffix(".gputop").removesuffix(".jsonl")
    return file.parent / f"{name or 'gputop'}.{what}{suffix}"


def cannot_write(error: OSError, out: Path) -> Failure:
    """What to say when a new file can't be written."""
    if isinstance(error, FileExistsError):
        replaceable = "exists already" in str(error)
        mend = "; name another with -o" + (", or --force to replace it" if replaceable else "")
        return Failure(f"{out} {error.strerror}{mend}")
    why = (error.strerror or str(error)).lower()
    return Failure(f"{out} can't be written: {why}; nothing was left behind; name another place with -o")


def by_type(counts: dict[str, int]) -> str:
    """Counts by name, the most first."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {count(number)}" for name, number in ordered)


def _worst(found: Recovery) -> list[Gap]:
    worst = sorted(found.gaps, key=lambda gap: -gap.count)[:NAMED_GAPS]
    return [gap for gap in found.gaps if gap in worst]


def _gap(gap: Gap) -> str:
    records = counted(gap.count, "record")
    if gap.from_ns is None:
        return f"{records} at the beginning"
    if gap.to_ns is None:
        return f"{records} at the end, after {_when(gap.from_ns)}"
    return f"{records} between {_when(gap.from_ns)} and {_when(gap.to_ns)}"


def _span(found: Recovery) -> str:
    return f"{_when(found.from_ns or 0)} to {_when(found.to_ns or 0)}"


def _when(ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ns / 1e9))
