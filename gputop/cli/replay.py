"""`gputop replay FILE`: the screen over a recorded run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.options import Seconds, merged, screen_options
from gputop.cli.progress import Progress
from gputop.cli.recorded import answering, recorded, shown, tell
from gputop.cli.show import has_screen

if TYPE_CHECKING:
    from gputop.recording.past import Info
    from gputop.recording.reader import Recording
    from gputop.tui.goto import Place

SLOWEST, FASTEST = 0.25, 120.0

FIRST_S = 0.3
"""How long the first picture is waited for: usually some milliseconds, and better than an empty one."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option(
    "--speed", type=Seconds(SLOWEST, FASTEST), default=1.0, show_default=True, help="Times as fast as it was."
)
@click.option(
    "--from",
    "from_",
    metavar="WHEN",
    help="Begin there: 01:23:45, 90s, 50%, 'step 1200', 14:05; +30s from the start, -5m from the end.",
)
@click.option("--at-end", is_flag=True, help="Begin at the end; of a recording that is being written, follow it.")
@screen_options
@click.pass_context
def command(ctx: click.Context, /, file: Path, speed: float, from_: str | None, at_end: bool, **options: Any) -> int:
    """Watch a recorded run on the same screen: play, pause, go anywhere, at any speed.

    FILE is a recording, also one that is still being written, or a trace in JSON Lines. Verdicts are those of today's
    rules; where another was said at the time, it stands beside. Without a terminal, or with --plain, the changes of the
    verdict over the whole run (or from --from on) are printed.
    """
    options = merged(ctx, options)
    if from_ is not None and at_end:
        raise click.UsageError("--from and --at-end are two places to begin; give one of them")
    with recorded(file) as recording:
        info = recording.info()
        if info.records == 0:
            later = "; try again when something has been recorded" if info.being_written else ""
            raise Failure(f"{file} holds no record yet{later}", UNREADABLE)
        where = None if from_ is None else _place(from_, info, recording)
        if options["plain"] or not has_screen():
            there = where.t_ns if where is not None else None
            return _retell(recording, info, info.to_ns if at_end else there)
        return _show(recording, info, options, speed=speed, where=where, at_end=at_end)


def _place(text: str, info: Info, recording: Recording) -> Place:
    """The place that was asked for, a step's with its moment. Raises UsageError where there is none."""
    from gputop.sources.steps import numbered_from
    from gputop.tui.goto import Nowhere, place
    from gputop.view import Cursor

    whole = Cursor(
        from_ns=info.from_ns, to_ns=info.to_ns, at_ns=info.from_ns, live=False, playing=False, speed=1.0, replay=True
    )
    try:
        found = place(text, whole, from_start=True)
    except Nowhere as error:
        raise click.UsageError(f"--from: {error}") from None
    if found.step is None:
        return found
    step = numbered_from(recording, recording.last_seq(), found.step, None)
    if step is None:
        raise click.UsageError(f"--from: there is no step {found.step}, nor one after it, in {recording.path}")
    return found._replace(t_ns=step.t)


def _retell(recording: Recording, info: Info, from_ns: int | None) -> int:
    from gputop.cli import retold

    progress = Progress(f"judging {recording.path.name}")
    told = False
    with answering():
        for line in retold.lines(recording, info, progress, from_ns):
            progress.clear()
            print(line, flush=True)
            told = True
    progress.clear()
    if not told:
        where = "" if from_ns is None else "from there on "
        why = "" if info.runs else ": it holds neither a run nor steps, nor one process that a GPU listed alone"
        print(f"gputop: no training run to tell of {where}in {shown(recording.path)}{why}", file=sys.stderr)
    tell(recording.warnings)
    return 0


def _show(
    recording: Recording, info: Info, options: dict[str, Any], *, speed: float, where: Place | None, at_end: bool
) -> int:
    from gputop import tui
    from gputop.feed import Feed
    from gputop.sources.replay import ReplaySource

    start_ns = where.t_ns if where is not None else None
    source = ReplaySource(recording, speed=speed, start_ns=start_ns, at_end=at_end)
    screen = tui.options_from(options)
    feed = Feed(source, hostname=", ".join(info.hosts), refresh_s=screen.refresh).start()
    if where is not None and where.step is not None:
        feed.seek_step(where.step)
    feed.wait(feed.view(), FIRST_S)
    try:
        code = tui.run(feed, screen)
    finally:
        feed.close()
    if feed.fault is not None:
        raise feed.fault
    return code
