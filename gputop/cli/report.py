"""`gputop report FILE`: what held a recorded run back."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.options import debug_option


@click.command()
@debug_option
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option("--no-cmdline", is_flag=True, help="Leave out command lines and users.")
def command(file: Path, as_json: bool, no_cmdline: bool) -> int:
    """Say what held a recorded run back: shares of time, evidence, advice, the expected gain.

    FILE is a trace in JSON Lines, one record a line.
    """
    from gputop.report import summary, text
    from gputop.report.judged import judge_trace
    from gputop.sources.trace import Unreadable, read

    try:
        records, warnings = read(file)
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    judged = judge_trace(records, str(file))
    if as_json:
        for warning in warnings:
            print(f"gputop: {warning}", file=sys.stderr)
        json.dump(
            summary.of_trace(judged, tuple(warnings), cmdlines=not no_cmdline), sys.stdout, indent=1, allow_nan=False
        )
        sys.stdout.write("\n")
    else:
        sys.stdout.write(text.of_trace(judged, tuple(warnings)))
    return 0
