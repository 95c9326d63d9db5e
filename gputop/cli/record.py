"""`gputop record FILE`: record what happens on this machine, without a screen."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from pathlib import Path

import click

from gputop.cli import UNREADABLE, amounts
from gputop.cli.ending import Ending
from gputop.cli.errors import Failure
from gputop.cli.journal import Journal
from gputop.cli.launcher import Launcher
from gputop.cli.opening import open_live
from gputop.cli.options import Seconds, debug_option
from gputop.feed import Feed
from gputop.recording.errors import Busy, Unreadable
from gputop.recording.naming import default_path
from gputop.recording.recorder import Recorder

HANGUP = 129
WAIT_S = 0.2
CLOSE_S = 2.0
"""What a disk is given to take the last words; Slurm's patience between SIGTERM and SIGKILL is usually 30 s."""


@click.command()
@debug_option
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--seconds", type=Seconds(0.1, 366 * 86_400), help="End by itself after this long.")
@click.option("--run", "run_id", metavar="RUN_ID", help="End when this run ends.")
@click.option("--max-size", callback=amounts.size, metavar="SIZE", help="End when the file has this size, e.g. 2G.")
@click.option(
    "--keep",
    callback=amounts.span,
    metavar="SPAN",
    help="Keep no more than this long, e.g. 24h; what is older is given up.",
)
@click.option(
    "--min-free",
    callback=amounts.size,
    metavar="SIZE",
    help="Pause while less is free on the disk. [200M, 5 % of a small disk]",
)
@click.option("--no-cmdline", is_flag=True, help="Leave out command lines and users.")
@click.option("--for", "command_token", hidden=True)
@click.option("--ready-fd", type=int, hidden=True)
@click.option("--orders-fd", type=int, hidden=True)
def command(
    file: Path | None,
    seconds: float | None,
    run_id: str | None,
    max_size: int | None,
    keep: int | None,
    min_free: int | None,
    no_cmdline: bool,
    command_token: str | None,
    ready_fd: int | None,
    orders_fd: int | None,
) -> int:
    """Record everything that trains on this machine, its GPUs and the verdicts, until told to end.

    Ends on Ctrl+C or SIGTERM, after --seconds, or with --run; the file is readable at any time, even after a kill -9.
    A recording that exists is continued. Without FILE it is called after the time, in the working folder.
    """
    launcher = Launcher(ready_fd, orders_fd)
    ending = Ending(seconds=seconds, run_id=run_id, command=command_token)
    path = Path(os.path.abspath(file)) if file is not None else None
    try:
        recorder, fresh = _open(path, cmdlines=not no_cmdline, max_bytes=max_size, keep_ns=keep, floor_bytes=min_free)
        try:
            return _record(recorder, fresh, launcher, ending, max_size, no_cmdline)
        finally:
            recorder.close(CLOSE_S)
            if launcher.abandoned and fresh:
                _remove(recorder.path)
    except Exception as error:
        launcher.say(str(error) or type(error).__name__)
        raise


def _open(path: Path | None, **limits: int | bool | None) -> tuple[Recorder, bool]:
    """The recorder, and whether its file is a new one. Raises Failure."""
    path = path or default_path(time.time_ns())
    fresh = not path.exists()
    try:
        if path.is_dir():
            raise click.UsageError(f"{path} is a folder; name a file in it, e.g. {path / 'run.gputop'}")
        if not path.parent.is_dir():
            raise click.UsageError(f"there is no folder {path.parent}; make it first")
        return Recorder(path, **limits), fresh  # type: ignore[arg-type]
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    except Busy as error:
        raise Failure(str(error)) from None
    except OSError as error:
        denied = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        mend = "; name a file in a folder of yours" if denied else ""
        why = (error.strerror or str(error)).lower()
        raise Failure(f"can't record to {path}: {why}{mend}") from None


def _record(
    recorder: Recorder, fresh: bool, launcher: Launcher, ending: Ending, max_size: int | None, no_cmdline: bool
) -> int:
    try:
        source = open_live({"no_cmdline": no_cmdline})
    except Failure:
        if fresh:
            recorder.close(CLOSE_S)
            _remove(recorder.path)
        raise
    journal = Journal()
    feed = Feed(source, hostname=os.uname().nodename, refresh_s=0.5)
    with ending.signals():
        feed.start()
        feed.record(recorder.start())
        journal.began(recorder.path, fresh, ending.words())
        launcher.say("ready")
        try:
            view = feed.view()
            while not (ending.over(view) or launcher.abandons() or feed.ended() or recorder.state().state == "ended"):
                view = feed.wait(view, WAIT_S)
                journal.saw(view, recorder.state())
        finally:
            feed.close()
            recorder.close(CLOSE_S)
        state = recorder.state()
        journal.saw(feed.view(), state)
        journal.ended(state, ending.elapsed_s())
    if feed.fault is not None:
        raise feed.fault
    full = max_size is not None and state.bytes >= max_size
    return HANGUP if ending.hung_up else 0 if state.why is None or full else 1


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(OSError):
            os.unlink(f"{path}{suffix}")
