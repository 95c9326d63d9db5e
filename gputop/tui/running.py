"""Runs the screen on this process's terminal, from the first look at the terminal to the exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import suppress
from os.path import isfile
from shlex import quote

from gputop.records import clean
from gputop.tui.guard import LOST_TTY, Guard
from gputop.tui.options import Options, Picture
from gputop.tui.terminal import Terminal, examine

CRASHED = 1

_SYSTEMS = {"none": "standard", "16": "standard", "256": "256", "truecolor": "truecolor"}


def run(picture: Picture, options: Options) -> int:
    """Shows the picture until the person leaves, and closes it. Main thread only."""
    terminal = examine(options, os.environ, getattr(sys.__stderr__, "encoding", None))
    _prepare(terminal)
    from gputop.tui.app import GputopApp
    from gputop.tui.cost import Meter
    from gputop.tui.driver import QUIT_KEYS, driver_class
    from gputop.tui.keys import checked

    def ask(code: int) -> None:
        loop = app.loop
        if loop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # the loop closed in between: the app has ended
                loop.call_soon_threadsafe(app.exit, code)

    guard = Guard(ask, picture.close)
    if guard.blind():
        picture.close()
        return LOST_TTY
    own = checked(options.keys)[0].get("quit")
    quits = QUIT_KEYS if own is None else frozenset((*own.split(","), "ctrl+c"))
    meter = Meter()
    app = GputopApp(
        picture, options, terminal, on_leave=guard.leave, meter=meter,
        driver_class=driver_class(lambda: guard.leave(0), quits, meter.wrote),
    )  # fmt: skip
    with guard:
        app.run(mouse=options.mouse)
        guard.restored()
        code = guard.code
        picture.close()
        app.lending.close()
        _tell(app.recorded)
    if code is not None:
        return code
    if app.crash is not None:
        _confess(app.crash, debug=options.debug)
        return CRASHED
    return app.return_code or 0


def _prepare(terminal: Terminal) -> None:
    """Tells Textual, which reads its settings when imported, what was decided about the terminal."""
    os.environ["TEXTUAL_COLOR_SYSTEM"] = _SYSTEMS[terminal.colors]
    os.environ["TEXTUAL_ANIMATIONS"] = "none"


def _tell(recorded: Iterable[str]) -> None:
    """Where recordings lie that were made meanwhile, and of which nothing does: the screen that said so is gone."""
    lines = [
        f"gputop: recorded into {path}; see gputop report {quote(path)}"
        if isfile(path)
        else f"gputop: no recording is left at {path}: it was moved or deleted, or could not be written"
        for path in recorded
    ]
    with suppress(OSError, ValueError):  # a terminal that went away
        print("".join(f"{clean(line, 2000)}\n" for line in lines), end="", file=sys.stderr, flush=True)


def _confess(error: BaseException, *, debug: bool) -> None:
    if debug:
        traceback.print_exception(type(error), error, error.__traceback__)
    else:
        what = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        print(f"gputop: the screen failed ({what}); the training is not affected. --debug shows more.", file=sys.stderr)
