"""How far something is, on stderr: from the second second on, a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from gputop.figures import span
from gputop.records import clean

PATIENCE_S = 2.0
"""Nothing is said of what takes less."""

BAR_EVERY_S, LINE_EVERY_S = 0.2, 15.0
WIDTH = 30


class Progress:
    """Call it with the share that is done (0-1) as often as you like; `clear` takes the bar away."""

    def __init__(self, what: str, *, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = clean(what, 200)
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._began = clock()
        self._bar = self._stream.isatty()
        self._next = self._began + (PATIENCE_S if self._bar else LINE_EVERY_S)
        self._drawn = False

    def __call__(self, share: float) -> None:
        """Say how far it is, if it is time to."""
        now = self._clock()
        if now < self._next:
            return
        share = min(1.0, max(0.0, share))
        left = (now - self._began) * (1 - share) / share if share > 0.01 else None
        text = f"{self._what} {100 * share:3.0f} %" + (f", {span(left)} left" if left is not None else "")
        if self._bar:
            full = round(WIDTH * share)
            self._stream.write(f"\r{'#' * full}{'.' * (WIDTH - full)} {text}\x1b[K")
            self._next, self._drawn = now + BAR_EVERY_S, True
        else:
            self._stream.write(f"gputop: {text}\n")
            self._next = now + LINE_EVERY_S
        self._stream.flush()

    def clear(self) -> None:
        """Leave no trace of the bar."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False
