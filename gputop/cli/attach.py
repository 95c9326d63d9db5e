"""`gputop attach PID`: watch a training that has no publisher, by samples of its stacks."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from gputop.cli.errors import Failure
from gputop.cli.opening import open_live
from gputop.cli.options import Seconds, merged, screen_options
from gputop.cli.show import has_screen, show, stream
from gputop.records import clean

if TYPE_CHECKING:
    from gputop.samplers.attach.lines import Worker

FIRM_WITHIN_S = 60.0
"""Without a terminal it ends with its first firm verdict, at the latest after this long."""

WORKER_S = 5.0


@click.command()
@click.argument("pid", type=click.IntRange(1))
@click.option("--seconds", type=Seconds(1, 86_400), help="End by itself after this long.")
@click.option(
    "--inject", is_flag=True, help="Instead, have it load gputop's publisher (Python 3.14): then it is measured."
)
@click.option("--worker", is_flag=True, help="Instead, sample one of its loader workers and list its hottest lines.")
@click.option("--json", "as_json", is_flag=True, help="With --worker: answer in JSON.")
@screen_options
@click.pass_context
def command(
    ctx: click.Context, /, pid: int, seconds: float | None, inject: bool, worker: bool, as_json: bool, **options: Any
) -> int:
    """Watch a training that runs already, without a change to it and without a pause in it.

    py-spy (pip install 'gputop-live[attach]') reads its stacks 100 times a second; what they do is told apart by their
    frames. All of it is sampled and says so: shares of time are estimates. Start the training with `gputop run` to have
    its steps measured.
    """
    from gputop.samplers.attach.tool import Refused

    options = merged(ctx, options)
    try:
        if worker:
            return _worker(pid, seconds or WORKER_S, as_json)
        if as_json:
            raise click.UsageError(
                "--json goes with --worker; `gputop once --json` tells of trainings with a publisher"
            )
        source = open_live(options)
        try:
            if inject:
                from gputop.samplers.attach import injection

                injection.inject(pid)
            else:
                source.attach(pid)
        except Refused:
            source.close()
            raise
    except Refused as refused:
        raise Failure(str(refused)) from None
    if options["plain"] or not has_screen():
        limit = seconds if seconds is not None or options["plain"] else FIRM_WITHIN_S
        return stream(source, seconds=limit, until_firm=seconds is None and not options["plain"])
    return show(source, options)


def _worker(pid: int, seconds: float, as_json: bool) -> int:
    """Sample the busiest loader worker of a process, or the process itself where it has none, and say its lines."""
    from gputop.samplers.attach import lines, loading, tool

    tool.check(pid)
    workers = loading.workers(pid)
    if not workers:
        raise tool.Refused(f"process {pid} has no loader workers", "with num_workers=0, attach to it without --worker")
    found = lines.sample(workers[0], seconds)
    if as_json:
        json.dump(plain(found, pid, len(workers)), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return 0
    click.echo(f"worker {found.pid}, one of {len(workers)} of process {pid}, sampled for {seconds:g} s: it works "
               f"{100 - found.waiting_pct:.0f} % of the time")  # fmt: skip
    for line in found.lines:
        inner = f"  in {clean(line.inner, 100)}" if line.inner else ""
        click.echo(f"{line.pct:6.1f} %  {clean(line.site, 60):24}  {clean(line.function, 60)}{inner}")
    return 0


def plain(found: Worker, pid: int, workers: int) -> dict[str, Any]:
    """The answer in JSON."""
    return {
        "schema": 1, "sampled": True, "pid": pid, "workers": workers, "worker": found.pid, "samples": found.samples,
        "waiting_pct": round(found.waiting_pct, 1),
        "lines": [{**line._asdict(), "pct": round(line.pct, 1)} for line in found.lines],
    }  # fmt: skip
