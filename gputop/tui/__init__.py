"""The screen: what a view looks like in a terminal. Nothing here imports Textual until `run` is called."""

from __future__ import annotations

from gputop.tui.options import Options, Picture, options_from

__all__ = ["Options", "Picture", "options_from", "run"]


def run(picture: Picture, options: Options | None = None) -> int:
    """Shows `picture` until the person leaves; gives the exit code: 0, 129 if the terminal went away, 1 after a crash.

    Takes over the terminal, its signals and, if the screen no longer answers, the end of this process.
    """
    from gputop.tui.running import run as run_screen

    return run_screen(picture, options or Options())
