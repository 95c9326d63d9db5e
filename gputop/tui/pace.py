"""When what is drawn: figures from the newest view, histories and wording from calmer ones; nothing while the terminal
has not taken what was written before."""

from __future__ import annotations

import math
import os
import select
from collections import deque
from typing import Any

from gputop.tui.draw.sight import chosen
from gputop.tui.draw.transport import mode_of
from gputop.tui.options import SLOW_REFRESH_S
from gputop.view import RunView, View

HISTORY_NS = 1_900_000_000
"""Histories move at most this often (a tick may come a little early), also where columns are shorter than 2 s."""

CALM_NS = 5_000_000_000
"""How often the wording of a verdict and the shares of the ledger are drawn anew while the verdict stays the same."""

SLOW_HISTORY_NS, SLOW_CALM_NS = 9_900_000_000, 30_000_000_000
"""The same on a slow link."""

BACK_OFF_S = 60.0
"""For so long a terminal that can't keep up is drawn to as on a slow link: what waits in front of it (some 15,000 bytes
in a pseudo-terminal) delays the answer to every key, and only goes away if less is sent than it takes."""

OFTEN, OFTEN_S = 3, 30.0
"""It can't keep up if it became full so often within so many seconds. Once is no sign: it may have been stopped, or its
machine was busy."""


class Pace:
    """Three views of one picture: `fast` is the newest, `slow` moves with the histories' columns, `calm` every few
    seconds; both move at once where what is watched or concluded is another thing. For a terminal that
    can't keep up all move as on a slow link for a while."""

    def __init__(self, view: View, *, slow_link: bool) -> None:
        self.fast = self.slow = self.calm = view
        self._slow = self._slow_link = slow_link
        self._full = False
        self._filled: deque[float] = deque(maxlen=OFTEN)
        self._backs_off_until = self._drawn_s = -math.inf

    def due(self, now_s: float, *, takes: bool) -> bool:
        """Whether to look and draw now, in monotonic seconds; `takes`: the terminal has room."""
        if not takes:
            if not self._full:
                self._fills(now_s)
            self._full = True
            return False
        self._full = False
        backs_off = now_s < self._backs_off_until
        self._slow = self._slow_link or backs_off
        if backs_off and now_s - self._drawn_s < SLOW_REFRESH_S:
            return False
        self._drawn_s = now_s
        return True

    def _fills(self, now_s: float) -> None:
        self._filled.append(now_s)
        often = len(self._filled) == OFTEN and now_s - self._filled[0] < OFTEN_S
        if often or now_s < self._backs_off_until:
            self._backs_off_until = now_s + BACK_OFF_S

    def look(self, view: View, run_id: str | None) -> None:
        """Takes in the newest view; `run_id` is the run that is shown."""
        self.fast = view
        history_ns, calm_ns = (SLOW_HISTORY_NS, SLOW_CALM_NS) if self._slow else (HISTORY_NS, CALM_NS)
        differs = _differs(self.calm, view, run_id)
        aged = not 0 <= view.now_ns - self.slow.now_ns < history_ns
        if differs or (aged and view.last_column != self.slow.last_column):
            self.slow = view
        if differs or not 0 <= view.now_ns - self.calm.now_ns < calm_ns:
            self.calm = view

    def catch_up(self) -> None:
        """Moves the slow and calm views too."""
        self.slow = self.calm = self.fast

    def begin(self, view: View) -> None:
        """Another picture: all from its view."""
        self.fast = self.slow = self.calm = view


def _differs(shown: View, view: View, run_id: str | None) -> bool:
    """Whether what is watched or concluded is no longer the same, so that all of it has to be drawn at once."""
    if [run.run.run_id for run in view.runs] != [run.run.run_id for run in shown.runs]:
        return True
    if len(view.gpus) != len(shown.gpus) or view.waiting != shown.waiting:
        return True
    if mode_of(view) != mode_of(shown):
        return True
    now, before = chosen(view, run_id), chosen(shown, run_id)
    if now is None or before is None:
        return False
    return _told(now) != _told(before)


def _told(run: RunView) -> tuple[str, bool | None, str, str | None]:
    return run.verdict.cause, run.verdict.tentative, run.state, None if run.said is None else run.said.cause


def takes_bytes(stream: Any) -> bool:
    """Whether the terminal has room for more; one that has stopped reading must not stall the loop."""
    try:
        fd = stream.fileno()
        if not os.isatty(fd):
            return True
        poll = select.poll()
        poll.register(fd, select.POLLOUT)
        return bool(poll.poll(0))
    except (AttributeError, OSError, ValueError):
        return True
