"""`gputop config`: where the configuration file is, what may stand in it, and what is in force."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from gputop import config as file
from gputop.cli.options import SCREEN_NAMES, debug_option
from gputop.records import clean


@click.command()
@click.option("--path", "what", flag_value="path", help="Print where the file is (it need not exist).")
@click.option("--default", "what", flag_value="default", help="Print a file with every setting at its default.")
@click.option("--show", "what", flag_value="show", help="Print what is in force, and from where. The default.")
@debug_option
@click.pass_context
def command(ctx: click.Context, /, what: str | None) -> int:
    """The configuration file and what is in force.

    A flag goes before the environment, the environment before the file, the file before the default. To begin a file:
    mkdir -p ~/.config/gputop && gputop config --default > ~/.config/gputop/config.toml
    """
    given: dict[str, Any] = ctx.obj or {}
    path = given.get("config") or file.path_of()
    if what == "path":
        click.echo(str(path))
    elif what == "default":
        click.echo(default_text(), nl=False)
    else:
        _show(file.load(path), given)
    return 0


def _show(config: file.Config, given: dict[str, Any]) -> None:
    settings, warnings = file.in_force(config, {name: given.get(name) for name in SCREEN_NAMES}, os.environ)
    click.echo(f"# {clean(str(config.path), 1000)}{'' if config.exists else ' (no such file)'}")
    rows = {name: f"{name} = {_toml(found.value)}" for name, found in settings.items()}
    width = max(map(len, rows.values()))
    for name, row in rows.items():
        click.echo(f"{row:{width}}  # {settings[name].source}")
    if config.keys:
        known = _bindings()
        kept, faults = _checked({name: keys for name, keys in config.keys.items() if name in known})
        click.echo("\n[keys]")
        for name in kept:
            click.echo(f"{name} = {_toml(clean(config.keys[name], 200))}  # file, instead of {known[name][0]}")
        warnings += [f"{config.path.name} has an unknown key 'keys.{name}'{file.near(name, tuple(known))}"
                     for name in config.keys if name not in known]  # fmt: skip
        warnings += faults
    for warning in warnings:
        print(f"gputop: {clean(warning, 500)}", file=sys.stderr)


def default_text() -> str:
    """A file with every setting and every key at its default, each told, all commented out."""
    lines = ["# gputop's configuration. What is commented out is the default.", ""]
    for name, setting in file.SETTINGS.items():
        lines.append(f"# {setting.says}" + (f": {', '.join(setting.choices)}" if setting.choices else ""))
        lines += [f"# {name} = {_toml(setting.default)}", ""]
    lines += ["# Keys: one, several parted by commas, or a list.", "[keys]"]
    bound = {name: (f"# {name} = {_toml(keys)}", says) for name, (keys, says) in _bindings().items()}
    width = max(len(row) for row, _ in bound.values())
    lines += [f"{row:{width}}  # {says}" for row, says in bound.values()]
    return "\n".join(lines) + "\n"


def _bindings() -> dict[str, tuple[str, str]]:
    """Every binding: its keys and what it does."""
    from gputop.tui.keys import described

    return described()


def _checked(keys: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """The keys that will be in force, and what is wrong with the others."""
    from gputop.tui.keys import checked

    return checked(keys)


def _toml(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"
