"""`gputop run -- CMD`: the command itself, with the publisher injected."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn

import click


@click.command(context_settings={"allow_interspersed_args": False})
@click.option(
    "--record", type=click.Path(path_type=Path, readable=False), metavar="FILE", help="Record it into FILE as it runs."
)
@click.option("--no-hooks", multiple=True, metavar="NAME", help="Leave out an automatic hook, e.g. syncs; repeatable.")
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
def command(record: Path | None, no_hooks: tuple[str, ...], cmd: tuple[str, ...]) -> NoReturn:
    """Run a training command with the publisher in it; nothing in your code changes.

    \b
    gputop run -- python train.py --epochs 3
    gputop run -- torchrun --nproc-per-node 2 train.py
    gputop run --record run.gputop -- python train.py

    The command replaces this process: its pid, terminal, output, signals and exit status are its own. A recorder runs
    apart from it and ends after it; when it can't record it says so, and the command runs all the same.
    """
    words = list(cmd[1:] if cmd and cmd[0] == "--" else cmd)
    if not words:
        raise click.UsageError("say what to run:  gputop run -- python train.py")
    from gputop.publisher import arm, launch

    for name in no_hooks:
        if name not in arm.HOOKS:
            raise click.UsageError(f"--no-hooks {name!r}: no such hook; they are {', '.join(arm.HOOKS)}")
    env = launch.prepare_env(dict(os.environ), list(no_hooks))
    if record is None:
        launch.exec_command(words, env)
    _exec_recorded(record, words, env)


def _exec_recorded(file: Path, words: list[str], env: dict[str, str]) -> NoReturn:
    """Become the command, with a recorder beside it."""
    from gputop.cli import detached
    from gputop.publisher import launch
    from gputop.records import clean

    try:
        recorder = detached.start(file)
        trouble = recorder.trouble
    except OSError as error:
        recorder, trouble = None, f"the recorder can't be started: {(error.strerror or str(error)).lower()}"
    if trouble is not None:
        print(f"gputop: not recorded: {clean(trouble, 500)}", file=sys.stderr, flush=True)
    try:
        if recorder is not None:
            recorder.begin()
        launch.exec_command(words, {**env, detached.COMMAND: detached.token()})
    except (SystemExit, KeyboardInterrupt):
        if recorder is not None:
            recorder.abandon()
        raise
