"""`gputop completion SHELL`: what makes a shell complete gputop's commands, options and files."""

from __future__ import annotations

import click

from gputop.cli.options import debug_option

WHERE = {
    "bash": 'add to ~/.bashrc:  eval "$(gputop completion bash)"',
    "zsh": 'add to ~/.zshrc:  eval "$(gputop completion zsh)"',
    "fish": "gputop completion fish > ~/.config/fish/completions/gputop.fish",
}
"""How each shell takes it in."""

VARIABLE = "_GPUTOP_COMPLETE"


@click.command()
@click.argument("shell", type=click.Choice(list(WHERE)))
@debug_option
def command(shell: str) -> int:
    """Print what makes SHELL complete gputop's commands, options, scenarios and files.

    \b
    bash: add to ~/.bashrc:  eval "$(gputop completion bash)"
    zsh:  add to ~/.zshrc:   eval "$(gputop completion zsh)"
    fish: gputop completion fish > ~/.config/fish/completions/gputop.fish
    """
    from click import shell_completion

    from gputop.cli.commands import cli

    kind = shell_completion.get_completion_class(shell)
    assert kind is not None
    made = kind(cli, {}, "gputop", VARIABLE)
    click.echo(f"# {WHERE[shell]}")
    click.echo(made.source_template % made.source_vars())
    return 0
