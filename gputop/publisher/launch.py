"""`gputop run`: the environment that injects the publisher into a command, and becoming that command."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

INJECT = str(Path(__file__).with_name("inject"))
"""The folder that goes in front of PYTHONPATH; it holds sitecustomize.py alone."""

NO_HOOKS = "GPUTOP_NO_HOOKS"
"""Names of hooks to leave out, separated by commas."""

CANNOT_RUN, NOT_FOUND = 126, 127
"""Exit codes for a command that can't be executed or isn't there, as shells give them."""

OPTIONS_WITH_VALUE = frozenset("WXQcm")


def prepare_env(env: Mapping[str, str], hooks_off: Sequence[str] = ()) -> dict[str, str]:
    """The environment for the command: the injecting folder first on PYTHONPATH, the hooks to leave out named."""
    out = dict(env)
    path = [entry for entry in out.get("PYTHONPATH", "").split(os.pathsep) if entry and entry != INJECT]
    out["PYTHONPATH"] = os.pathsep.join([INJECT, *path])
    if hooks_off:
        out[NO_HOOKS] = ",".join(hooks_off)
    return out


def exec_command(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Become the command. Where that fails, one line on stderr and exit status 126 or 127, as a shell would."""
    option = isolating_option(argv)
    if option is not None:
        _say(f"Python's {option} ignores PYTHONPATH, so gputop can't watch this run; call gputop.watch() in the script")
    sys.stdout.flush()
    sys.stderr.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(argv[0], list(argv), dict(env))
    except FileNotFoundError:
        _say(f"{argv[0]}: command not found{_through_python(argv)}")
        raise SystemExit(NOT_FOUND) from None
    except (OSError, ValueError) as error:
        _say(f"{argv[0]}: {getattr(error, 'strerror', None) or error}{_through_python(argv)}")
        raise SystemExit(CANNOT_RUN) from None


def _through_python(argv: Sequence[str]) -> str:
    """How a script is run that was given as if it were a program."""
    script = argv[0].endswith(".py") and os.path.isfile(argv[0])
    return f"; it is a Python script: gputop run -- python {shlex.join(argv)}" if script else ""


def isolating_option(argv: Sequence[str]) -> str | None:
    """The option by which a Python on this command line ignores PYTHONPATH or start-up files: -I, -E or -S."""
    if not argv or not re.fullmatch(r"python[\d.]*|pypy[\d.]*", os.path.basename(argv[0])):
        return None
    words = iter(argv[1:])
    for word in words:
        if not word.startswith("-") or word == "-":
            return None
        for index, letter in enumerate(word[1:]):
            if letter == "-":
                break
            if letter in "IES":
                return f"-{letter}"
            if letter in OPTIONS_WITH_VALUE:
                if letter in "cm":
                    return None
                if index == len(word) - 2:
                    next(words, None)
                break
    return None


def arm_injected() -> None:
    """What the injected start-up file calls once torch is there. Never raises."""
    from gputop.publisher.oath import confess

    try:
        from gputop.publisher import arm, core
        from gputop.publisher.process import switched_off

        if not switched_off():
            names = os.environ.get(NO_HOOKS, "").split(",")
            arm.arm(core.publisher(), frozenset(name for name in names if name), imported=True)
    except Exception as error:
        confess("gputop run", error)


def _say(text: str) -> None:
    sys.stderr.write(f"gputop: {text}\n")
    sys.stderr.flush()
