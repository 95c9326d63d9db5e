"""`gputop export FILE --to FORMAT -o OUT`: a recording for other tools."""

from __future__ import annotations

import errno
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gputop.cli.errors import Failure
from gputop.cli.options import debug_option
from gputop.cli.progress import Progress
from gputop.cli.recorded import answering, shown, tell
from gputop.cli.stretch import Stretch, opened, stretch
from gputop.figures import counted, size
from gputop.recording.export import FORMATS, Missing, load, target
from gputop.recording.export.material import Material
from gputop.records import TYPES, Record, Reply, Request

if TYPE_CHECKING:
    from gputop.recording.export import Format

BIG_BYTES = 500_000_000
"""A trace of events above this is slow or too much for a browser tab (about 2 GB of its memory)."""

GAUGES = 6
"""Events that a record other than a step usually becomes: most hold several gauges."""

NAMES = tuple(name for name, cls in TYPES.items() if cls not in (Request, Reply))


def _types(ctx: click.Context, param: click.Parameter, words: tuple[str, ...]) -> tuple[type[Record], ...]:
    """Record types by name, separated by commas."""
    names = [name.strip() for word in words for name in word.split(",") if name.strip()]
    for name in names:
        if name not in NAMES:
            raise click.BadParameter(f"{name!r} is no record type; they are {', '.join(NAMES)}", ctx, param)
    return tuple(dict.fromkeys(TYPES[name] for name in names))


@click.command()
@debug_option
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option("--to", "name", type=click.Choice(FORMATS), required=True, help="The format.")
@click.option("-o", "--output", "out", required=True, metavar="OUT", help="The file to write; - is standard output.")
@click.option("--types", multiple=True, callback=_types, metavar="TYPE,…", help="Record types, e.g. step,gpu.")
@click.option("--from", "from_", metavar="PLACE", help="Leave out what was before: 1:30:00, 50%, 14:05, step 1200.")
@click.option("--until", metavar="PLACE", help="Leave out what came after.")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
def command(
    file: Path,
    name: str,
    out: str,
    types: tuple[type[Record], ...],
    from_: str | None,
    until: str | None,
    force: bool,
) -> int:
    """Write a recording for other tools: JSON Lines, CSV, Parquet, or a trace that ui.perfetto.dev opens.

    FILE is a recording, or a trace in JSON Lines. CSV and Parquet hold one record type a file, steps unless --types
    says otherwise; with several types OUT is a folder with a file for each.
    """
    form = load(name)
    chosen = types or form.TYPES
    if out == target.STDOUT:
        if not form.TO_STDOUT:
            raise click.UsageError(f"{name} can't go to standard output (its readers must seek); name a file")
        if form.TABLE and len(chosen) > 1:
            raise click.UsageError("several types need a folder; name one with -o, or choose one type")
    with opened(file) as contents:
        part = stretch(contents, from_, until)
        if name == "perfetto":
            _hint(part, out)
        progress = Progress("exporting")
        material = part.material(progress, passes=2 * len(chosen) if form.TABLE else 1)
        try:
            with _until_terminated():
                counts = _write(form, material, chosen, out, force, file)
        except Missing as error:
            raise Failure(str(error)) from None
        except FileExistsError as error:
            mend = "--force replaces it" if error.strerror == "exists already" else "name another"
            raise Failure(f"{error.filename} {error.strerror}; {mend}") from None
        except BrokenPipeError:
            raise
        except OSError as error:
            raise Failure(_sentence(error, out)) from None
        finally:
            progress.clear()
        tell(contents.warnings)
    if out != target.STDOUT:
        with answering():
            print(f"{shown(out)}: {_told(counts)}")
    elif not sum(counts.values()):
        print("gputop: there is no record of these types in that stretch", file=sys.stderr)
    return 0


def _write(
    form: Format, material: Material, types: tuple[type[Record], ...], out: str, force: bool, source: Path
) -> dict[type[Record] | None, int]:
    """Write it; returns how many records of which type (None: of all)."""
    if not form.TABLE or len(types) == 1:
        with target.file(out, force=force, source=source) as stream:
            return {types[0] if form.TABLE else None: form.write(material, types, stream)}
    counts: dict[type[Record] | None, int] = {}
    with target.folder(out, force=force, source=source) as folder:
        for cls in types:
            with open(folder / f"{_tag(cls)}{form.SUFFIX}", "wb") as stream:
                counts[cls] = form.write(material, (cls,), stream)
    return counts


def _hint(part: Stretch, out: str) -> None:
    """Say beforehand that a trace will be too big to be opened, and how to have less of it."""
    from gputop.recording.export.to_perfetto import EVENT_BYTES, STEP_EVENTS

    share, steps, records = part.share, part.contents.steps, part.contents.records
    guess = share * (steps * STEP_EVENTS + max(0, records - steps) * GAUGES) * EVENT_BYTES
    if guess > BIG_BYTES and out != target.STDOUT:
        some = max(0.1, 100 * share * BIG_BYTES / guess)
        print(
            f"gputop: this will be about {size(guess)}, more than a trace viewer opens with ease; "
            f"take a part of it, such as --from 50% --until {50 + min(50, some):.3g}%",
            file=sys.stderr,
        )


@contextmanager
def _until_terminated() -> Iterator[None]:
    """SIGTERM ends the block like Ctrl+C does, so that what was half written is taken away."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _sentence(error: OSError, out: str) -> str:
    why = (error.strerror or str(error)).lower()
    mend = {
        errno.ENOSPC: "free some space, or take less with --from, --until or --types",
        errno.EDQUOT: "free some of your quota, or take less with --from, --until or --types",
        errno.ENOENT: "is there such a folder?",
        errno.EACCES: "choose a place that you may write to",
        errno.EROFS: "choose a place that you may write to",
    }.get(error.errno or 0)
    if out == target.STDOUT:
        return f"the answer can't be written: {why}"
    return f"{out} could not be written: {why}; nothing was left behind" + (f"; {mend}" if mend else "")


def _told(counts: dict[type[Record] | None, int]) -> str:
    parts = []
    for cls, count in counts.items():
        parts.append(counted(count, f"{_tag(cls)} record" if cls is not None else "record"))
    return ", ".join(parts)


def _tag(cls: type[Record]) -> str:
    return str(cls.__struct_config__.tag)
