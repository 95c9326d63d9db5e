"""`gputop report FILE`: what held a recorded run back."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.options import debug_option, merged
from gputop.cli.progress import Progress
from gputop.cli.recorded import answering, shown, tell


@click.command()
@debug_option
@click.argument("file", type=click.Path(path_type=Path, readable=False))
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option("--html", metavar="OUT", help="Write one self-contained page with charts to OUT (-: stdout).")
@click.option("--force", is_flag=True, help="Replace OUT if it exists.")
@click.option("--no-cmdline", is_flag=True, help="Leave out command lines and users.")
@click.option("--no-color", is_flag=True, help="No colour at all (also: NO_COLOR).")
@click.option("--ascii", "ascii_", is_flag=True, help="Write ASCII characters only.")
@click.pass_context
def command(ctx: click.Context, /, file: Path, as_json: bool, html: str | None, force: bool, **options: Any) -> int:
    """Say what held a recorded run back: shares of time, evidence, advice, the expected gain.

    FILE is a recording, or a trace in JSON Lines.
    """
    from gputop.report import page, summary, words
    from gputop.report.paper import paper_for
    from gputop.report.reading import Unreadable, judge_file

    if as_json and html == "-":
        raise click.UsageError("--json and --html - both write to stdout; name a file for the page")
    options = merged(ctx, options)
    progress = Progress(f"judging {file.name}")
    try:
        judged, warnings = judge_file(file, progress)
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    finally:
        progress.clear()
    report = summary.of_trace(judged, warnings, cmdlines=not options["no_cmdline"])
    if html is not None:
        _write(html, page.of_report(report, judged.series), file, force=force, told=not as_json)
    if as_json or html == "-":
        tell(warnings)
    with answering():
        if as_json:
            json.dump(report, sys.stdout, indent=1, allow_nan=False)
            sys.stdout.write("\n")
        elif html is None:
            paper = paper_for(sys.stdout, ascii_only=bool(options["ascii_"]), color=not options["no_color"])
            sys.stdout.write(words.of_report(report, paper))
    return 0


def _write(out: str, text: str, source: Path, *, force: bool, told: bool) -> None:
    """The page, into a file or to stdout; it comes first, so that it is there if nobody reads the rest. May fail."""
    from gputop.figures import size
    from gputop.recording.export import target

    content = text.encode()
    try:
        with target.file(out, force=force, source=source) as stream:
            stream.write(content)
    except FileExistsError as error:
        mend = "--force replaces it" if error.strerror == "exists already" else "name another"
        raise Failure(f"{out} {error.strerror}; {mend}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        place = "the answer" if out == target.STDOUT else out
        raise Failure(f"{place} can't be written: {(error.strerror or 'unknown reason').lower()}") from None
    if told and out != target.STDOUT:
        with answering():
            print(f"{shown(out)}: the page, {size(len(content))}")
