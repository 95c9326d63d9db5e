"""Every wait for the device, masks and `nonzero` too, by line: for a few steps, by the framework's sync debug mode.

In that mode torch warns of each operation that waits. The warnings are counted here and shown to nobody; what a mode
of the script's own finds is left to it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import Any

from gputop.publisher.frames import caller_site
from gputop.publisher.oath import confess

SAID = "called a synchronizing"
"""What torch's warning begins with, of whatever device."""

PROTOTYPE = "Synchronization debug mode"
"""What it says once when the mode is turned on."""

WARN = 1

MAX_SITES = 20


class Waits:
    """The waits of one thread between `begin` and `end`."""

    def __init__(self) -> None:
        self._thread = 0
        self._cuda: Any = None
        self._sites: dict[str, int] = {}
        self._filters: list[Any] = []
        self._shown: Callable[..., Any] = warnings.showwarning

    def begin(self, cuda: Any) -> bool:
        """Count from now on; False where the script uses the mode itself. `cuda` is `torch.cuda`, initialised."""
        if cuda.get_sync_debug_mode() != 0:
            return False
        self._cuda, self._thread = cuda, get_ident()
        self._shown = warnings.showwarning
        for action, message in (("ignore", PROTOTYPE), ("always", SAID)):
            warnings.filterwarnings(action, message=message, category=UserWarning)  # type: ignore[arg-type]
            self._filters.append(warnings.filters[0])
        warnings.showwarning = self._show
        try:
            cuda.set_sync_debug_mode(WARN)
        except BaseException:
            self.end()
            raise
        return True

    def end(self) -> None:
        """Undo all of it, but what the script has changed since."""
        cuda, self._cuda = self._cuda, None
        if cuda is None:
            return
        try:
            if cuda.get_sync_debug_mode() == WARN:
                cuda.set_sync_debug_mode(0)
        finally:
            if warnings.showwarning == self._show:
                warnings.showwarning = self._shown
            for ours in self._filters:
                with suppress(ValueError):  # a `catch_warnings` of the script's has ended meanwhile
                    warnings.filters.remove(ours)  # type: ignore[attr-defined]
            self._filters = []
            with warnings.catch_warnings():  # leaving it tells the interpreter that the filters have changed
                pass

    def sites(self) -> list[dict[str, Any]]:
        """Where there were most, first: `site` and `count`."""
        told = sorted(self._sites.items(), key=lambda item: -item[1])[:MAX_SITES]
        return [{"site": site, "count": count} for site, count in told]

    def _show(self, message: Any, category: Any, filename: str, lineno: int, *more: Any, **named: Any) -> None:
        """In the place of `warnings.showwarning`: others' warnings are shown as ever."""
        if not str(message).startswith(SAID):
            self._shown(message, category, filename, lineno, *more, **named)
            return
        try:
            if self._cuda is not None and get_ident() == self._thread:
                site = caller_site(2)
                self._sites[site] = self._sites.get(site, 0) + 1
        except Exception as error:
            confess("waits", error)
