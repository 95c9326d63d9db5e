"""Options that several commands share."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from gputop.cli import characters
from gputop.records import clean

F = TypeVar("F", bound=Callable[..., Any])


class Seconds(click.FloatRange):
    """A number within a range; "nan" is none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value} is not a number of use here.", param, ctx)
        return number


SCREEN = (
    click.option("--refresh", type=Seconds(0.1, 60), metavar="SECONDS", help="How often figures change. [1]"),
    click.option("--plain", is_flag=True, help="Print a line when a verdict changes, instead of a screen."),
    click.option("--no-color", is_flag=True, help="No colour at all (also: NO_COLOR)."),
    click.option("--ascii/--no-ascii", "ascii_", default=None, help="Draw with ASCII characters only."),
    click.option("--theme", type=click.Choice(["auto", "dark", "light", "contrast", "ansi"]), help="Colours. [auto]"),
    click.option("--slow-link/--no-slow-link", default=None, help="Draw less often, for slow connections."),
    click.option("--no-mouse/--mouse", "no_mouse", default=None, help="Leave the mouse to the terminal."),
    click.option("--debug", is_flag=True, help="Show where an error comes from."),
    click.option(
        "--no-cmdline/--cmdline", "no_cmdline", default=None, help="Don't show command lines and users of processes."
    ),
    click.option(
        "--config", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
        help="The configuration file. [see: gputop config --path]",
    ),
)  # fmt: skip

SCREEN_NAMES = ("refresh", "no_color", "ascii_", "theme", "slow_link", "no_mouse", "no_cmdline")
"""Options that a configuration file may set too."""

debug_option = click.option("--debug", is_flag=True, help="Show where an error comes from.", expose_value=False)
"""For commands without a screen; the entry point reads it from the command line itself."""


def screen_options(function: F) -> F:
    """The options of every command that shows a screen."""
    for option in reversed(SCREEN):
        function = option(function)
    return function


def merged(ctx: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """A command's options over those given before its name: `gputop --plain demo` is `gputop demo --plain`."""
    base = dict(ctx.obj or {})
    for name, value in options.items():
        typed = ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        given = value if value or typed or name not in SCREEN_NAMES else None
        if given or (typed and given is not None):
            base[name] = given
        else:
            base.setdefault(name, given)
    return configured(base)


def configured(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with what the environment and the configuration file say where no flag was given; `keys` are those
    of the file, `faults` what is wrong with either. Raises UsageError where a file was named that does not exist."""
    from gputop import config

    named = options.get("config")
    found = config.load(named or config.path_of())
    if named is not None and not found.exists:
        raise click.UsageError(f"--config: there is no file {str(named)!r}")
    settings, faults = config.in_force(found, {name: options.get(name) for name in SCREEN_NAMES}, os.environ)
    for fault in faults:
        print(f"gputop: {clean(fault, 500)}", file=sys.stderr)
    drawn = config.options_of(settings)
    if drawn.get("ascii_"):
        characters.only_ascii()
    return {
        **options, **drawn, "config": found.path, "keys": found.keys, "faults": tuple(faults),
    }  # fmt: skip
