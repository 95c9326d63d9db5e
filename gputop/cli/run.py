"""`gputop run -- CMD`: the command itself, with the publisher injected."""

from __future__ import annotations

import os

import click

from gputop.cli.errors import Failure


@click.command(context_settings={"allow_interspersed_args": False})
@click.option("--no-hooks", multiple=True, metavar="NAME", help="Leave out an automatic hook, e.g. syncs; repeatable.")
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
def command(no_hooks: tuple[str, ...], cmd: tuple[str, ...]) -> int:
    """Run a training command with the publisher in it; nothing in your code changes.

    \b
    gputop run -- python train.py --epochs 3
    gputop run -- torchrun --nproc-per-node 2 train.py

    The command replaces this process: its pid, terminal, output, signals and exit status are its own.
    """
    words = list(cmd[1:] if cmd and cmd[0] == "--" else cmd)
    if not words:
        raise click.UsageError("say what to run:  gputop run -- python train.py")
    from gputop.publisher import arm, launch

    for name in no_hooks:
        if name not in arm.HOOKS:
            raise click.UsageError(f"--no-hooks {name!r}: no such hook; they are {', '.join(arm.HOOKS)}")
    env = launch.prepare_env(dict(os.environ), list(no_hooks))
    launch.exec_command(words, env)
    raise Failure("the command could not be started", 126)
