"""A line that is typed into: one question in the last line of the screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from rich.cells import cell_len

from gputop.tui.lines import Line, Span, crop, fit, pieces

MOST = 40
"""Characters that an answer may have."""


class Question:
    """What is asked, what was typed so far, and what was wrong with the last answer.

    `ends` takes the answer and gives what is wrong with it, or "". `changes` is told of each change; the keys of
    `passes` are not part of an answer but go where they always go.
    """

    def __init__(
        self,
        asks: str,
        hints: Sequence[str],
        ends: Callable[[str], str] = lambda text: "",
        *,
        changes: Callable[[str], None] | None = None,
        passes: frozenset[str] = frozenset(),
        text: str = "",
        leaves: Callable[[], None] | None = None,
    ) -> None:
        self.asks, self.hints, self.ends, self.passes = asks, hints, ends, passes
        self.changes, self.leaves = changes, leaves
        self.text = text
        self.complaint = ""

    def take(self, key: str, character: str | None) -> Literal["done", "left"] | None:
        """One key. Gives "done" or "left" when it ends the question."""
        if key == "enter":
            return "done" if self.text.strip() or self.leaves is not None else "left"
        if key == "escape" or (key in ("backspace", "ctrl+h") and not self.text):
            return "left"
        self.complaint = ""
        if key in ("backspace", "ctrl+h"):
            self._set(self.text[:-1])
        elif key in ("ctrl+u", "ctrl+w"):
            self._set("")
        elif character is not None:
            self.type(character)
        return None

    def end(self, how: Literal["done", "left"]) -> bool:
        """Gives the answer away, or leaves. False where the answer was wrong: it is asked on, with a complaint."""
        if how == "done":
            self.complaint = self.ends(self.text)
            return not self.complaint
        if self.changes is not None:
            self.changes("")
        if self.leaves is not None:
            self.leaves()
        return True

    def type(self, text: str) -> None:
        """Adds what can be shown of a text, typed or pasted."""
        self._set((self.text + "".join(char for char in text if char.isprintable()))[:MOST])

    def _set(self, text: str) -> None:
        self.text = text
        if self.changes is not None:
            self.changes(text)

    def line(self, width: int) -> Line:
        """The question, the answer with its cursor, and beside it the hint or the complaint."""
        room = width - 3 - cell_len(self.asks)
        shown = self.text if cell_len(self.text) < room else self.text[-max(1, room - 2) :]
        after = max(0, room - cell_len(shown) - 4)
        tail = (
            Span(crop(self.complaint, after), "warn")
            if self.complaint
            else Span(pieces(self.hints, after, "  "), "dim")
        )
        asked = [Span(f" {self.asks} ", "key"), Span(shown, "bold"), Span(" ", "selected"), Span("  "), tail]
        return fit(asked, width)
