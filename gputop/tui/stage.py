"""The stage: what a screen asks of the app that shows it."""

from __future__ import annotations

from typing import Protocol

from gputop.tui.asking import Question
from gputop.tui.draw.sight import Sight
from gputop.tui.palette import Palette
from gputop.tui.sheet import Deed
from gputop.tui.terminal import Terminal


class Stage(Protocol):
    """The app, as far as its screens know it. `orders`: by page, the column it was sorted by, and whether reversed."""

    shades: Palette
    terminal: Terminal
    orders: dict[str, tuple[int, bool]]

    @property
    def asking(self) -> Question | None:
        """The question that keys are an answer to now."""

    def sight(self) -> Sight:
        """What is to be drawn now."""

    def show(self, *, at_once: bool = False) -> None:
        """Draw the current sight."""

    def say(self, text: str, seconds: float = 4.0) -> None:
        """Put a short answer into the last line."""

    def ask(self, question: Question) -> None:
        """Ask; keys are the answer until it is given or left."""

    def do(self, deed: Deed) -> None:
        """Do what Enter does on a page."""

    def go_to_moment(self, t_ns: int) -> None:
        """Go to a moment that was pointed at."""
