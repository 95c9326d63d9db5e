"""Lending: the recordings at hand, and one of them shown in the place of the own picture, which goes on meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from gputop.records import clean
from gputop.tui import keeping
from gputop.tui.aside import aside
from gputop.tui.kept import Kept
from gputop.tui.options import Picture

SHELF_S = 0.2
"""While recordings are looked through, how often those known so far are shown."""


class Lending:
    """The picture that is shown: the own one, or a borrowed one. Files are read on threads of their own; what comes of
    it is told through `call`, which has the app's thread do something and says whether it will."""

    def __init__(self, own: Picture, refresh_s: float, call: Callable[[Callable[[], object]], bool]) -> None:
        self.own, self.shown = own, own
        self.shelf: tuple[Kept, ...] | None = None
        """The recordings at hand, the newest first; None while they were not looked for."""
        self._refresh_s, self._call = refresh_s, call
        self._looking = False

    @property
    def borrowed(self) -> bool:
        """Whether a recording is shown in the place of the own picture."""
        return self.shown is not self.own

    def look(self, found: Callable[[], object]) -> None:
        """Looks for recordings; `found` is told whenever more is known of them. One look at a time."""
        if not self._looking:
            self._looking = True
            aside(partial(self._look, found))

    def _look(self, found: Callable[[], object]) -> None:
        from gputop.tui import shelf

        said = 0.0
        every: list[Kept] = []
        for every in shelf.found(keeping.folders()):
            if time.monotonic() - said >= SHELF_S:
                said = time.monotonic()
                if not self._call(partial(self._put, tuple(every), found, done=False)):
                    return
        self._call(partial(self._put, tuple(every), found, done=True))

    def _put(self, every: tuple[Kept, ...], found: Callable[[], object], *, done: bool) -> None:
        self.shelf, self._looking = every, not done
        found()

    def borrow(self, path: Path, ready: Callable[[Picture], object], refused: Callable[[str], object]) -> None:
        """Opens a recording. `ready` is told of the picture, to be given to `show`, or `refused` why there is none."""
        aside(partial(self._borrow, path, ready, refused))

    def _borrow(self, path: Path, ready: Callable[[Picture], object], refused: Callable[[str], object]) -> None:
        from gputop.recording.errors import Unreadable
        from gputop.tui import shelf

        try:
            feed = shelf.open_replay(path, self._refresh_s)
        except Unreadable as error:
            self._call(partial(refused, clean(str(error), 300)))
        except Exception as error:  # whatever ails the file, the screen goes on
            self._call(partial(refused, f"not opened: {clean(f'{type(error).__name__}: {error}', 200)}"))
        else:
            if not self._call(partial(ready, feed)):
                feed.close()

    def show(self, picture: Picture | None) -> None:
        """A borrowed picture is shown, or with None the own one again; what was borrowed before is let go of."""
        if self.borrowed:
            aside(self.shown.close)
        self.shown = self.own if picture is None else picture

    def close(self) -> None:
        """Lets go of what is borrowed."""
        if self.borrowed:
            self.shown.close()
