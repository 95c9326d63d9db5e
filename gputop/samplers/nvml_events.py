"""Errors that the driver reports of a device (XIDs): an event set is looked into and never waited for.

The driver tells each once, from when the set was registered on, without a time of its own. The wait has a timeout of 0,
so no thread is needed for it, and each device has a set, so that the trouble of one stays its own.
"""

from __future__ import annotations

import contextlib
from typing import Any

from gputop.samplers.asking import Unsupported
from gputop.samplers.nvml_library import TIMEOUT, code_of
from gputop.samplers.protocol import Say

XID = 0x8
"""nvmlEventTypeXidCriticalError (nvml.h)."""

MOST = 64
"""Events taken at once: a program of many channels that is ended makes one for each."""


class Events:
    """One device's event set, made when it is first asked."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._set: Any = None

    def ask(self, handle: Any, say: Say) -> list[int]:
        """The XIDs since the last call, each once, oldest first. Raises NVML's errors, and Unsupported."""
        if self._set is None:
            self._register(handle, say)
        found: list[int] = []
        say("nvmlEventSetWait")
        for _ in range(MOST):
            try:
                event = self._nvml.nvmlEventSetWait(self._set, 0)
            except Exception as error:
                if code_of(error) == TIMEOUT:
                    break
                raise
            # sets have given events that nobody registered for, and empty ones
            if event.eventType & XID and event.eventData:
                found.append(int(event.eventData))
        return list(dict.fromkeys(found))

    def last(self, say: Say) -> list[int]:
        """What the set still holds of a device that was lost, whose handle must not be used any more."""
        if self._set is None:
            return []
        with contextlib.suppress(Exception):
            return self.ask(None, say)
        return []

    def _register(self, handle: Any, say: Say) -> None:
        nvml = self._nvml
        say("nvmlDeviceGetSupportedEventTypes")
        if not nvml.nvmlDeviceGetSupportedEventTypes(handle) & XID:
            raise Unsupported("no XID events")
        made = nvml.nvmlEventSetCreate()
        say("nvmlDeviceRegisterEvents")
        try:
            nvml.nvmlDeviceRegisterEvents(handle, XID, made)
        except Exception:
            with contextlib.suppress(Exception):
                nvml.nvmlEventSetFree(made)
            raise
        self._set = made

    def free(self) -> None:
        """Give the set back. Only while the library is initialised."""
        made, self._set = self._set, None
        if made is not None:
            with contextlib.suppress(Exception):
                self._nvml.nvmlEventSetFree(made)
