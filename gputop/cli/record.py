"""`gputop record FILE`: record what happens on this machine, without a screen."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import click
import msgspec

from gputop.cli import UNREADABLE, amounts
from gputop.cli.ending import Ending
from gputop.cli.errors import Failure
from gputop.cli.journal import Journal
from gputop.cli.launcher import Launcher
from gputop.cli.opening import open_live
from gputop.cli.options import Seconds, debug_option
from gputop.feed import Feed
from gputop.recording.destination import Limits
from gputop.recording.errors import Busy, Unreadable
from gputop.recording.naming import default_path
from gputop.recording.recorder import Recorder
from gputop.recording.state import RecordingState
from gputop.recording.writer import discard

HANGUP = 129
REFRESH_S = 1.0
WAIT_S = 0.2
CLOSE_S = 2.0
"""What a disk is given to take the last words; Slurm's patience between SIGTERM and SIGKILL is usually 30 s."""


@click.command()
@debug_option
@click.argument("file", required=False, type=click.Path(path_type=Path, readable=False))
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
def command(
    file: Path | None,
    seconds: float | None,
    run_id: str | None,
    max_size: int | None,
    keep: int | None,
    min_free: int | None,
    no_cmdline: bool,
) -> int:
    """Record everything that trains on this machine, its GPUs and the verdicts, until told to end.

    Ends on Ctrl+C or SIGTERM, after --seconds, or with --run; the file is readable at any time, even after a kill -9.
    A recording that exists is continued. Without FILE it is called after the time, in the working folder.
    """
    ending = Ending(seconds=seconds, run_id=run_id)
    try:
        path = Path(os.path.abspath(file)) if file is not None else default_path(time.time_ns())
    except FileNotFoundError:
        raise Failure("the working folder is gone; go to another, or give FILE with its whole path") from None
    limits = Limits(max_bytes=max_size, keep_ns=keep, floor_bytes=min_free)
    return record(path, limits, ending, Launcher(), cmdlines=not no_cmdline)


def for_command(file: str, token: str, ready_fd: str, orders_fd: str) -> int:
    """What the recorder of `gputop run --record` runs: until the command that `token` names is over."""
    launcher = Launcher(int(ready_fd), int(orders_fd))
    try:
        return record(Path(file), Limits(), Ending(command=token), launcher)
    except Exception as error:
        launcher.say(error.message if isinstance(error, click.ClickException) else str(error) or type(error).__name__)
        return 1


def record(path: Path, limits: Limits, ending: Ending, launcher: Launcher, *, cmdlines: bool = True) -> int:
    """Record to the path until the end; returns the exit code. Raises Failure, UsageError."""
    fresh = _is_new(path)
    with ending.signals():
        recorder = _open(path, limits, cmdlines)
        try:
            source = open_live({"no_cmdline": not cmdlines})
        except Failure:
            _give_up(recorder, fresh)
            raise
        feed = Feed(source, hostname=os.uname().nodename, refresh_s=REFRESH_S).start()
        feed.record(recorder.start())
        launcher.say("ready")
        _follow(feed, recorder, fresh, ending, launcher)
        if launcher.abandoned:
            _give_up(recorder, fresh)
    if feed.fault is not None:
        raise feed.fault
    return HANGUP if ending.hung_up else _code(recorder.state(), limits)


def _follow(feed: Feed, recorder: Recorder, fresh: bool, ending: Ending, launcher: Launcher) -> None:
    """Say what happens until it is time to end, then let go of everything."""
    journal = Journal()
    journal.began(recorder.path, fresh, ending.words())
    view = feed.view()
    try:
        while not (launcher.abandons() or ending.over(view) or feed.ended() or recorder.state().state == "ended"):
            view = feed.wait(view, WAIT_S)
            recorder.add(ending.marks(view))
            journal.saw(view, recorder.state())
    finally:
        feed.close()
        recorder.close(CLOSE_S)
    journal.saw(feed.view(), recorder.state())
    journal.ended(recorder.state(), ending.elapsed_s())


def _code(state: RecordingState, limits: Limits) -> int:
    full = limits.max_bytes is not None and state.bytes >= limits.max_bytes
    return 0 if state.why is None or full else 1


def _is_new(path: Path) -> bool:
    """Whether there is nothing yet where a recording is to be. Raises Failure, UsageError."""
    try:
        if path.is_dir():
            raise click.UsageError(f"{path} is a folder; name a file in it, e.g. {path / 'run.gputop'}")
        _refuse_loop(path.parent)
        if not path.parent.is_dir():
            raise click.UsageError(f"there is no folder {path.parent}; make it first")
        _refuse_loop(path)
        if path.is_symlink() and not (target := Path(os.path.realpath(path))).parent.is_dir():
            raise click.UsageError(
                f"{path} is a link to {target}, and there is no folder {target.parent}; make it first"
            )
        return not path.exists()
    except OSError as error:
        raise Failure(f"can't record to {path}: {(error.strerror or str(error)).lower()}") from None


def _refuse_loop(path: Path) -> None:
    """Raise UsageError where links lead in a circle: there is no file behind such a name."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise click.UsageError(f"{path} is a link that leads back to itself; name another file") from None


def _open(path: Path, limits: Limits, cmdlines: bool) -> Recorder:
    try:
        return Recorder(path, cmdlines=cmdlines, **msgspec.structs.asdict(limits))
    except Unreadable as error:
        raise Failure(str(error), UNREADABLE) from None
    except Busy as error:
        raise Failure(str(error)) from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Failure(f"can't record to {path}: {why}") from None


def _give_up(recorder: Recorder, fresh: bool) -> None:
    """Leave nothing of a recording that was never to be; a file that was there before stays."""
    recorder.close(CLOSE_S)
    if fresh:
        discard(recorder.path)
