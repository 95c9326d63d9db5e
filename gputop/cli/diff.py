"""`gputop diff A B`: two runs compared, and whether the difference is beyond the noise."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from gputop.cli import UNREADABLE
from gputop.cli.errors import Failure
from gputop.cli.options import Seconds, debug_option
from gputop.cli.progress import Progress
from gputop.cli.recorded import answering, recorded, tell


@click.command()
@debug_option
@click.argument("a", type=click.Path(path_type=Path, readable=False))
@click.argument("b", type=click.Path(path_type=Path, readable=False))
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option(
    "--fail-on-regression",
    type=Seconds(0, 100),
    metavar="PCT",
    help="Exit with 1 if throughput fell by more than PCT percent and beyond the noise.",
)
@click.option("--run-a", metavar="ID", help="The run of A to compare: its id, or how that begins.")
@click.option("--run-b", metavar="ID", help="The run of B.")
def command(
    a: Path, b: Path, as_json: bool, fail_on_regression: float | None, run_a: str | None, run_b: str | None
) -> int:
    """Compare two runs: what changed, by how much, and whether it is beyond the noise.

    A and B are recordings, or traces in JSON Lines; B is told against A. Where a recording holds several jobs, the one
    that it was made for by run --record is compared, else the one that trained longest, by its first rank.
    """
    from gputop.report.diff import diff
    from gputop.report.diff_json import of_comparison as as_data
    from gputop.report.diff_pick import Choice
    from gputop.report.diff_side import load
    from gputop.report.diff_words import of_comparison as as_words
    from gputop.report.paper import paper_for

    sides = []
    for path, wanted, option in ((a, run_a, "--run-a"), (b, run_b, "--run-b")):
        with recorded(path) as recording:
            progress = Progress(f"judging {path.name}")
            try:
                sides.append(load(recording, wanted, option, progress))
            except Choice as error:
                if wanted is not None:
                    raise click.UsageError(str(error)) from None
                raise Failure(str(error), UNREADABLE) from None
            finally:
                progress.clear()
            tell(recording.warnings)
    found = diff(*sides)
    with answering():
        if as_json:
            json.dump(as_data(found), sys.stdout, indent=1, allow_nan=False)
            sys.stdout.write("\n")
        else:
            sys.stdout.write(as_words(found, paper_for(sys.stdout)))
    if fail_on_regression is None:
        return 0
    if found.mean is None:
        print("gputop: --fail-on-regression: no verdict, so no regression is claimed", file=sys.stderr)
    return 1 if found.regressed(fail_on_regression) else 0
