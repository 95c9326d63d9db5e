"""The command line: `main` runs a command, each in its own file and imported only when asked for."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""128 + SIGINT: a question (`once`, `report`) that was cut short."""

UNREADABLE = 3
"""The input is no trace, is missing, or is of a newer schema."""


def main(args: Sequence[str] | None = None) -> None:
    """Run gputop and leave with the exit code that the documentation promises; never with a traceback."""
    try:
        from gputop.cli import characters

        _fill_missing_streams()
        characters.fit()
        code = run(list(sys.argv[1:] if args is None else args))
    except KeyboardInterrupt:
        code = INTERRUPTED
    _flush_quietly()
    sys.exit(code)


def run(args: list[str]) -> int:
    """Run one command line; returns its exit code."""
    import click

    from gputop.cli.commands import cli
    from gputop.cli.errors import Failure
    from gputop.records import clean

    debug = "--debug" in args and args.index("--debug") < (args.index("run") if "run" in args else len(args))
    try:
        if "_GPUTOP_COMPLETE" in os.environ:
            cli.main(args, prog_name="gputop")
        with cli.make_context("gputop", args) as context:
            code = cli.invoke(context)
        return code if isinstance(code, int) else 0
    except Failure as failure:
        print(f"gputop: {clean(str(failure), 1000)}", file=sys.stderr)
        return failure.code
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        sys.stderr.write("".join(f"{clean(line, 1000)}\n" for line in said.getvalue().splitlines()))
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except BrokenPipeError:
        return 0
    except Exception as error:
        if debug:
            raise
        print(f"gputop: {clean(_sentence(error), 500)}; run it again with --debug to see where", file=sys.stderr)
        return 1


def _sentence(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror.lower()}" + (f": {error.filename}" if error.filename else "")
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _flush_quietly() -> None:
    """Write out what is buffered; a reader that has gone away is no error."""
    for descriptor, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except (ValueError, OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)


def _fill_missing_streams() -> None:
    """Started with stdin, stdout or stderr closed: what would go there goes nowhere."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        continue
    os.close(descriptor)
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
