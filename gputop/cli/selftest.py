"""`gputop selftest`: bottlenecks planted on this machine, what gputop says of each, and what the cure brings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from gputop.cli import planted
from gputop.cli.options import Seconds, debug_option
from gputop.cli.planted import Trial

ENOUGH = 0.95
"""Share of the trials that must come out right for the exit status to be 0."""

QUICK = ("input_workers", "host_work", "checkpoint")
"""The real loops of a quick test."""


@click.command()
@debug_option
@click.option("--quick", is_flag=True, help="The simulated loops, and a few of the real ones: about two minutes.")
@click.option("--simulated", is_flag=True, help="Only the simulated loops: some seconds, and no torch needed.")
@click.option("--only", metavar="NAME", multiple=True, help="Only this loop; may be given again.")
@click.option("--seconds", type=Seconds(12, 600), default=25, help="How long each real loop is watched.  [25]")
@click.option("--demos", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the scripts.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
def command(
    quick: bool, simulated: bool, only: tuple[str, ...], seconds: float, demos: Path | None, as_json: bool
) -> int:
    """Plant bottlenecks on this machine and print what gputop makes of them, as a confusion matrix.

    Simulated loops come first, then real PyTorch loops, each planted and cured, on the GPU where there is one. Exits
    with 1 when less than 95 % are named rightly. Leave the machine alone meanwhile: what else runs on it is found, too.
    """
    folder = None if simulated else planted.folder(demos)
    why = None if folder or simulated else planted.MISSING
    trials = [*_announced(planted.simulated(only), as_json)]
    if folder is not None:
        names = tuple(name for name in only if name in planted.suite(folder)) if only else QUICK if quick else ()
        if names or not only:
            why = planted.left_out(folder, names)
            trials += _announced(planted.real(folder, names, seconds, cured=not quick), as_json)
    unknown = set(only) - {trial.name for trial in trials}
    if unknown:
        raise click.UsageError(f"no loop {sorted(unknown)[0]!r}; the names are {', '.join(planted.names(folder))}")
    right = sum(trial.right for trial in trials)
    if as_json:
        json.dump(_plain(trials, why), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        click.echo("\n" + matrix(trials))
        click.echo(f"\n{right} of {len(trials)} right" + (f"; {why}" if why else ""))
    return int(right < ENOUGH * len(trials))


def _announced(trials: Iterator[Trial], as_json: bool) -> Iterator[Trial]:
    """Each trial as it ends, said on stdout unless JSON is to stand there."""
    for trial in trials:
        if not as_json:
            click.echo(line(trial))
        yield trial


def line(trial: Trial) -> str:
    """One trial in a line."""
    mark = "ok  " if trial.right else "MISS"
    how = "cured" if trial.fixed else "planted"
    gain = ""
    if trial.gain is not None:
        promise = f", promised {trial.promised:.2f}" if trial.promised is not None else ""
        gain = f"; the cure made it {trial.gain:.2f} times as fast{promise}"
    said = trial.said if trial.right else f"{trial.said}, expected {' or '.join(trial.expected)}"
    return f"{mark}  {trial.kind:9}  {trial.name:18}  {how:7}  {said}{gain}"


def matrix(trials: list[Trial]) -> str:
    """The confusion matrix in text: a row for each expected cause, with what was said of it and how often."""
    rows: dict[str, dict[str, int]] = {}
    for trial in trials:
        true = trial.said if trial.right else trial.expected[0]
        row = rows.setdefault(true, {})
        row[trial.said] = row.get(trial.said, 0) + 1
    width = max(map(len, rows), default=0)
    lines = [f"{'planted':{width}}  named"]
    for true in sorted(rows):
        said = ", ".join(f"{cause} {count}" for cause, count in sorted(rows[true].items(), key=lambda one: -one[1]))
        lines.append(f"{true:{width}}  {said}")
    return "\n".join(lines)


def _plain(trials: list[Trial], why: str | None) -> dict[str, Any]:
    right = sum(trial.right for trial in trials)
    return {
        "schema": 1,
        "ok": right >= ENOUGH * len(trials),
        "right": right,
        "of": len(trials),
        "left_out": why,
        "trials": [{**msgspec.to_builtins(trial), "right": trial.right} for trial in trials],
    }
