"""The pipes between a detached recorder and the `gputop run` that started it."""

from __future__ import annotations

import contextlib
import os
import select


class Launcher:
    """Who started this recorder: nobody, or a `gputop run --record` that waits for a word and may call it off."""

    def __init__(self, ready_fd: int | None = None, orders_fd: int | None = None) -> None:
        self.abandoned = False
        self._ready = ready_fd
        self._orders = orders_fd

    def say(self, text: str) -> None:
        """Tell it "ready", or what is wrong. Only the first word is heard."""
        if self._ready is not None:
            with contextlib.suppress(OSError):
                os.write(self._ready, text.encode()[:4000])
                os.close(self._ready)
            self._ready = None

    def abandons(self) -> bool:
        """Whether its command could not be started. When it could, the pipe has been closed without a word."""
        if self._orders is None or not select.select([self._orders], [], [], 0)[0]:
            return False
        with contextlib.suppress(OSError):
            self.abandoned = bool(os.read(self._orders, 1))
            os.close(self._orders)
        self._orders = None
        return self.abandoned
