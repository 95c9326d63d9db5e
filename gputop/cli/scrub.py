"""`gputop scrub FILE`: a copy without command lines, users, machines and paths."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.options import debug_option
from gputop.cli.progress import Progress
from gputop.cli.recorded import answering, shown, tell
from gputop.cli.recover import beside, by_type, cannot_write, given
from gputop.figures import counted
from gputop.recording.errors import Unreadable

if TYPE_CHECKING:
    from gputop.recording.scrub import Scrubber
    from gputop.records import AnyRecord

KINDS = ("command line", "user", "host name", "GPU serial number", "run name", "process name", "path", "link")
"""What may have been removed, in the order in which it is told."""


@click.command()
@debug_option
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option(
    "-o", "--output", "out", type=click.Path(path_type=Path, readable=False), metavar="OUT", help="The file to write."
)
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
def command(file: Path, out: Path | None, force: bool) -> int:
    """Write a copy that can be shared: without command lines, users, host names, serial numbers and paths.

    FILE is a recording, or a trace in JSON Lines; the copy is of the same kind, and called NAME.scrubbed.gputop (or
    .jsonl) unless -o says otherwise. Figures, times, the scripts' file names and the runs' labels stay.
    """
    progress = Progress("scrubbing")
    try:
        text = not _is_recording(file)
        out = beside(file, "scrubbed", ".jsonl" if text else ".gputop") if out is None else out
        scrubber, counts, warnings = (_scrub_lines if text else _scrub_recording)(file, out, force, progress)
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    except OSError as error:
        raise cannot_write(error, out or file) from None
    finally:
        progress.clear()
    tell(warnings)
    removed = [counted(len(found), kind) for kind in KINDS if (found := scrubber.names.removed.get(kind))]
    with answering():
        print(f"{shown(out)}: {counted(sum(counts.values()), 'record')} ({by_type(counts)})")
        print("removed: " + ", ".join(removed) if removed else "there was nothing to remove")
    return 0


def _is_recording(file: Path) -> bool:
    from gputop.recording.header import first_bytes, is_sqlite

    return is_sqlite(first_bytes(file))


def _scrub_recording(
    file: Path, out: Path, force: bool, progress: Progress
) -> tuple[Scrubber, Counter[str], list[str]]:
    from gputop.recording.reader import Recording
    from gputop.recording.rewriting import new_file, wipe, write_anew
    from gputop.recording.scrub import TELLING, Scrubber

    scrubber = Scrubber()
    recording = Recording(file)
    try:
        whole = recording.last_seq()

        def records() -> Iterator[AnyRecord]:
            for seq, record in recording.numbered(upto_seq=whole):
                if not seq % 1024:
                    progress(0.1 + 0.85 * seq / whole)
                yield scrubber.scrub(record)

        with new_file(out, file, force=force) as partial:
            scrubber.learn(recording.records(types=TELLING))
            counts = write_anew(records(), partial)
            wipe(partial)
        return scrubber, counts, recording.warnings
    finally:
        recording.close()


def _scrub_lines(file: Path, out: Path, force: bool, progress: Progress) -> tuple[Scrubber, Counter[str], list[str]]:
    from gputop.codec import to_json
    from gputop.recording.rewriting import new_file
    from gputop.recording.scrub import Scrubber
    from gputop.sources.trace import TraceReader

    scrubber, counts = Scrubber(), Counter[str]()
    with new_file(out, file, force=force) as partial:
        scrubber.learn(given(TraceReader(file), lambda share: progress(share / 2)))
        reader = TraceReader(file)
        with open(partial, "xb") as stream:
            for record in given(reader, lambda share: progress(0.5 + share / 2)):
                stream.write(to_json(scrubber.scrub(record)) + b"\n")
                counts[str(type(record).__struct_config__.tag)] += 1
    return scrubber, counts, reader.warnings
