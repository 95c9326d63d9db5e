"""The screen in a process of its own: `python -m tests.tui.child STATE [key=value ...]`, for pty tests.

`move=SECONDS` makes each look at the picture that much later than the one before; without it the picture stands still.
`fail=1` breaks the picture at its second look. `hang=1` makes closing it hang. `quits=KEY` is the key
that quits. `cwd=FOLDER` is the current folder. Other keys are screen options.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from msgspec.structs import replace

from gputop.tui import options_from, run
from gputop.view import View
from tests.tui import views


class Moving(views.Canned):
    """Each look is `step` seconds later. Like a feed, it stands still when it is told to pause, and knows how far back
    that is."""

    def __init__(self, shown: View, given: dict[str, str]) -> None:
        if shown.cursor is None:
            past = 2890.0  # not just before a length at which the map takes another step
            shown = replace(shown, cursor=views.cursor(past, int(past * views.SECOND), replay=False, live=True))
        super().__init__(shown)
        self._step, self._given, self._looks = float(given.get("move", 0)), given, 0
        self._held: View | None = None

    def view(self) -> View:
        self._looks += 1
        if self._given.get("fail") and self._looks > 1:
            raise RuntimeError("the picture broke")
        newest = views.later(self.shown, self._looks * self._step) if self._step else self.shown
        if self._held is None or self._held.cursor is None or newest.cursor is None:
            return newest
        to_ns = self._held.cursor.to_ns if newest.cursor.replay else newest.cursor.to_ns
        return replace(self._held, cursor=replace(self._held.cursor, live=False, playing=False, to_ns=to_ns))

    def toggle(self) -> None:
        self._held = self.view() if self._held is None else None

    def close(self) -> None:
        super().close()
        if self._given.get("hang"):
            time.sleep(60)


def main(state: str, *words: str) -> int:
    given: dict[str, Any] = dict(word.split("=", 1) for word in words)
    picture = Moving(getattr(views, state)(), given)
    if "cwd" in given:
        os.chdir(given.pop("cwd"))
    if "quits" in given:
        given["keys"] = {"quit": given.pop("quits")}
    given["refresh"] = float(given.get("refresh", 1.0))
    return run(picture, options_from(given))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
