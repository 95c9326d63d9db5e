"""Which of several runs is shown: the one that was picked, else the one shown so far while it trains, else the first
that does. Whatever begins beside it does not push it away."""

from __future__ import annotations

from collections.abc import Callable

from gputop.view import GOES_ON, View, meant, run_shown


class Choice:
    """`mean` tells the picture which run its steps and changes are to be of; None: the first that trains."""

    def __init__(self) -> None:
        self._picked: str | None = None
        self._shown: str | None = None
        self._meant: str | None = None

    @property
    def id(self) -> str | None:
        """The run to be shown; None: any."""
        return self._shown

    def pick(self, run_id: str, mean: Callable[[str | None], object]) -> None:
        """A person has picked a run."""
        self._picked = self._shown = self._meant = run_id
        mean(run_id)

    def look(self, view: View, mean: Callable[[str | None], object]) -> None:
        """Takes in which runs there are now. One that was picked is shown whenever it is there."""
        going = [run.run.run_id for run in meant(view) if run.state in GOES_ON]
        if any(run.run.run_id == self._picked for run in view.runs):
            self._shown = wanted = self._picked
        else:
            if self._shown not in going:
                self._shown = going[0] if going else None
            first = run_shown(view, None)
            wanted = None if first is None or first.run.run_id == self._shown else self._shown
        if wanted != self._meant:
            self._meant = wanted
            mean(wanted)
