"""The pipes between a detached recorder and the `gputop run` that started it."""

from __future__ import annotations

import contextlib
import os
import select

from gputop.cli.detached import BEGUN, CALLED_OFF


class Launcher:
    """Who started this recorder: nobody, or a `gputop run --record` that waits for a word and may call it off."""

    def __init__(self, ready_fd: int | None = None, orders_fd: int | None = None) -> None:
        self.abandoned = False
        self._ready = ready_fd
        self._orders = orders_fd
        self._begun = False

    def say(self, text: str) -> None:
        """Tell it "ready", or what is wrong. Only the first word is heard."""
        if self._ready is not None:
            with contextlib.suppress(OSError):
                os.write(self._ready, text.encode()[:4000])
                os.close(self._ready)
            self._ready = None

    def abandons(self) -> bool:
        """Whether there is no command: it could not be started, or whatever would have become it is gone."""
        while self._orders is not None and select.select([self._orders], [], [], 0)[0]:
            said = b""
            with contextlib.suppress(OSError):
                said = os.read(self._orders, 16)
            self._begun |= BEGUN in said
            if said and CALLED_OFF not in said:
                continue
            self.abandoned = CALLED_OFF in said or not self._begun
            os.close(self._orders)
            self._orders = None
        return self.abandoned
