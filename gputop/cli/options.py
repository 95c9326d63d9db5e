"""Options that several commands share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import click

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
    click.option("--ascii", "ascii_", is_flag=True, help="Draw with ASCII characters only."),
    click.option("--theme", type=click.Choice(["auto", "dark", "light", "contrast", "ansi"]), help="Colours. [auto]"),
    click.option("--slow-link", is_flag=True, help="Draw less often, for slow connections."),
    click.option("--no-mouse", is_flag=True, help="Leave the mouse to the terminal."),
    click.option("--debug", is_flag=True, help="Show where an error comes from."),
    click.option("--no-cmdline", is_flag=True, help="Don't show command lines and users of processes."),
)


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
    base.update({name: value for name, value in options.items() if value not in (None, False)})
    for name, value in options.items():
        base.setdefault(name, value)
    return base
