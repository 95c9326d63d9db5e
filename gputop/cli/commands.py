"""The commands' names, their order, and the group that imports each only when it is asked for."""

from __future__ import annotations

import difflib
import importlib
import os
from typing import Any

import click

from gputop import __version__
from gputop.cli.options import configured, screen_options

COMMANDS = {
    "demo": "watch a simulated training with a planted bottleneck",
    "run": "run a training command with the publisher in it",
    "attach": "watch a training that runs already, without a change to it, by samples of its stacks",
    "record": "record what happens, without a screen: for jobs and services",
    "once": "look, judge, answer and leave: for scripts and CI",
    "replay": "watch a recorded run on the same screen, at any speed",
    "report": "what held a recorded run back, in words, JSON or as a page",
    "diff": "two runs side by side: what changed, and is it beyond the noise",
    "export": "a recording for pandas, DuckDB, spreadsheets or a trace viewer",
    "recover": "save what can be saved of a damaged recording",
    "scrub": "a copy without command lines, users, host names and paths, to be shared",
    "selftest": "plant bottlenecks on this machine and see what is said of each",
    "doctor": "what works here and what doesn't, each with its mend",
    "config": "the configuration file and what is in force",
    "completion": "completion of commands and options for bash, zsh and fish",
}
"""Commands and what they do, as listed in help; each lives in the module of its name."""


class Commands(click.Group):
    """A group whose commands are imported when used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of help."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"gputop.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first word names; an unknown one is a usage error that names the nearest."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            if os.path.isfile(args[0]):
                raise click.UsageError(f"{args[0]!r} is a file; did you mean 'gputop replay {args[0]}'?", ctx)
            near = difflib.get_close_matches(args[0], COMMANDS, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]!r}?" if near else f"; the commands are {', '.join(COMMANDS)}"
            raise click.UsageError(f"no command {args[0]!r}{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Without a command: the live view of this machine. Documentation: the docs folder of the project.",
)
@click.version_option(__version__, prog_name="gputop")
@screen_options
@click.pass_context
def cli(ctx: click.Context, /, **options: Any) -> int | None:
    """Why is the GPU idle while this trains?

    Run it in a second terminal while a training runs: it finds the training, measures where each step's time goes, and
    names what holds it back.
    """
    ctx.obj = options
    if ctx.invoked_subcommand is not None:
        return None
    from gputop.cli.live import live

    return live(configured(options))
