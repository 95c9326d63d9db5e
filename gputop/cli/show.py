"""Showing a source: on the screen where there is a terminal, else in plain text."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from gputop.feed import Feed
from gputop.sources import Source
from gputop.view import View


def has_screen() -> bool:
    """Whether a full screen can be drawn: a terminal on stdin, stdout and stderr that is not dumb."""
    return os.environ.get("TERM", "") not in ("", "dumb") and all(
        stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)
    )


@contextmanager
def ending_in_order() -> Iterator[None]:
    """While the screen does not see to signals itself yet, or no longer, one that ends it is an exception, so that what
    was opened is closed: children, sockets, files. The exit codes are the screen's."""

    def leave(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number if number == signal.SIGHUP else 0)

    usual = (signal.SIG_DFL, signal.default_int_handler)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    caught = {number: handler for number, handler in before.items() if handler in usual}
    for number in caught:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in caught.items():
            signal.signal(number, handler)


def show(source: Source, options: dict[str, Any], *, column_s: float = 2.0, until_end: bool = False) -> int:
    """Draw a source until the user leaves, or with `until_end` until it has run dry; returns the exit code."""
    refresh = options.get("refresh") or (5.0 if options.get("slow_link") else 1.0)
    feed = Feed(source, column_ns=int(column_s * 1e9), hostname=os.uname().nodename, refresh_s=refresh)
    try:
        feed.start()
        from gputop import tui

        code = tui.run(feed, tui.options_from({**options, "until_end": until_end}))
    finally:
        feed.close()
    _raise_fault(feed)
    return code


class _Ended(Exception):  # noqa: N818
    """A signal asked for the end."""


def stream(source: Source, *, seconds: float | None = None, until_firm: bool = False) -> int:
    """Print a line whenever a verdict changes, until interrupted, `seconds` have passed or a verdict is firm."""
    from gputop.report.plain import PlainStream

    def ended(number: int, frame: FrameType | None) -> None:
        raise _Ended

    previous = {number: signal.signal(number, ended) for number in (signal.SIGTERM, signal.SIGINT)}
    feed = Feed(source, hostname=os.uname().nodename, refresh_s=0.5).start()
    plain = PlainStream()
    deadline = None if seconds is None else time.monotonic() + seconds
    view: View | None = None
    try:
        while deadline is None or time.monotonic() < deadline:
            view = feed.wait(view, 1.0)
            for line in plain.lines(view):
                print(line, flush=True)
            if feed.ended() or (until_firm and firm(view)):
                break
        _raise_fault(feed)
        return 0
    except _Ended:
        return 0
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        feed.close()


def firm(view: View) -> bool:
    """Whether every run that trains has a verdict that is no longer tentative."""
    judged = [run for run in view.runs if run.state not in ("ended", "lost")] or list(view.runs)
    return bool(judged) and all(not run.verdict.tentative and run.verdict.cause != "warmup" for run in judged)


def _raise_fault(feed: Feed) -> None:
    if feed.fault is not None:
        raise feed.fault
