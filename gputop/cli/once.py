"""`gputop once`: judge the backlog and a few live seconds, answer, leave."""

from __future__ import annotations

import json
import os
import sys
import time

import click

from gputop.cli.opening import open_live
from gputop.cli.options import Seconds, debug_option
from gputop.cli.show import firm
from gputop.diagnosis.verdict import judge_silent
from gputop.feed import Feed
from gputop.report import summary, text
from gputop.report.paper import paper_for
from gputop.view import View

SETTLE_S = 2.2
"""The least time to look: what the samplers need for their first two samples, and a publisher for its answer."""

FIGURES_S = 5.0
"""How long the figures of a run's processes are waited for: without them nobody can tell whose the busy cores are.
They come with the second sample after the run was met, and never where it can't be seen from here."""


def _causes(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """What a shell may complete."""
    from gputop.diagnosis.causes import IDS

    return sorted(cause for cause in IDS if cause.startswith(incomplete))


@click.command()
@debug_option
@click.option("--seconds", type=Seconds(0.1, 3600), default=5.0, show_default=True, help="Look no longer.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@click.option("--fail-on", multiple=True, metavar="CAUSE", help="Exit with 1 if this is the verdict of any run.",
              shell_complete=_causes)  # fmt: skip
@click.option("--no-cmdline", is_flag=True, help="Leave out command lines and users.")
def command(seconds: float, as_json: bool, fail_on: tuple[str, ...], no_cmdline: bool) -> int:
    """Look, judge, answer and leave: for scripts, cron and CI.

    What a training did in the last two minutes counts too, so the answer comes as soon as it is sure, at the latest
    after --seconds.
    """
    return look(seconds=seconds, as_json=as_json, fail_on=fail_on, cmdlines=not no_cmdline)


def look(*, seconds: float, as_json: bool, fail_on: tuple[str, ...], cmdlines: bool) -> int:
    """Do it; returns the exit code."""
    _check_causes(fail_on)
    source = open_live({"no_cmdline": not cmdlines})
    feed = Feed(source, hostname=os.uname().nodename, refresh_s=0.25).start()
    started = time.monotonic()
    view: View | None = None
    met: dict[str, int] = {}
    try:
        while (spent := time.monotonic() - started) < seconds:
            view = feed.wait(view, min(0.5, seconds - spent))
            if spent < FIGURES_S and not _judged_at_work(view, met):
                continue
            if spent > min(SETTLE_S, seconds) and firm(view) and not _catching_up(view):
                break
        view = feed.view()
        idle = None
        if not view.runs:
            silent = source.silent_pids()
            idle = judge_silent(view.now_ns, silent) if silent else feed.watch.idle(view.now_ns)
    finally:
        feed.close()
    if feed.fault is not None:
        raise feed.fault
    if as_json:
        from_ns = min([run.first_ns for run in view.runs if run.first_ns is not None], default=view.started_ns)
        answer = summary.of_view(view, from_ns=from_ns, cmdlines=cmdlines)
        answer["verdict"] = summary.full(idle if idle is not None else view.runs[0].verdict)
        json.dump(answer, sys.stdout, indent=1, allow_nan=False)
        sys.stdout.write("\n")
    else:
        sys.stdout.write(text.of_view(view, idle, paper_for(sys.stdout)))
    causes = {idle.cause} if idle is not None else {run.verdict.cause for run in view.runs}
    return 1 if causes & set(fail_on) else 0


def _judged_at_work(view: View, met: dict[str, int]) -> bool:
    """Whether every run that trains has been judged since the samplers first told what its processes do.

    `met`: of each run, when the verdict was judged that stood as these figures came; kept from look to look.
    """
    training = [run for run in view.runs if run.state == "training"]
    for run in training:
        if run.process is not None and run.process.tree_cpu_pct is not None:
            met.setdefault(run.run.run_id, run.verdict.t)
    return all(run.verdict.t > met.get(run.run.run_id, run.verdict.t) for run in training)


def _catching_up(view: View) -> bool:
    """Whether the backlog is still coming in: the newest step ended more than some steps before the view."""
    return any(
        run.state == "training"
        and run.last_ns is not None
        and run.step_ms is not None
        and view.now_ns - run.last_ns > 2e9 + 3e6 * run.step_ms["p95"]
        for run in view.runs
    )


def _check_causes(names: tuple[str, ...]) -> None:
    from gputop.diagnosis.causes import IDS

    for name in names:
        if name not in IDS:
            raise click.UsageError(f"--fail-on {name}: no such cause; the causes are {', '.join(sorted(IDS))}")
