"""When what is drawn: figures from the newest view, histories and wording from calmer ones; nothing while the terminal
has not taken what was written before."""

from __future__ import annotations

import os
import select
from typing import Any

from gputop.tui.draw.sight import chosen
from gputop.tui.draw.transport import mode_of
from gputop.view import RunView, View

HISTORY_NS = 1_900_000_000
"""Histories move at most this often (a tick may come a little early), also where columns are shorter than 2 s."""

CALM_NS = 5_000_000_000
"""How often the wording of a verdict and the shares of the ledger are drawn anew while the verdict stays the same."""

SLOW_HISTORY_NS, SLOW_CALM_NS = 9_900_000_000, 30_000_000_000
"""The same on a slow link."""


class Pace:
    """Three views of one picture: `fast` is the newest, `slow` moves with the histories' columns, `calm` every few
    seconds; both move at once where what is watched or concluded is another thing."""

    def __init__(self, view: View, *, slow_link: bool) -> None:
        self.fast = self.slow = self.calm = view
        self._history_ns, self._calm_ns = (SLOW_HISTORY_NS, SLOW_CALM_NS) if slow_link else (HISTORY_NS, CALM_NS)

    def look(self, view: View, run_id: str | None) -> None:
        """Takes in the newest view; `run_id` is the run that is shown."""
        self.fast = view
        differs = _differs(self.calm, view, run_id)
        aged = not 0 <= view.now_ns - self.slow.now_ns < self._history_ns
        if differs or (aged and view.last_column != self.slow.last_column):
            self.slow = view
        if differs or not 0 <= view.now_ns - self.calm.now_ns < self._calm_ns:
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
