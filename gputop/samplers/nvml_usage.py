"""Which process uses a device's processors, as the driver's ring of samples has it: a statistical estimate.

The driver notes the one process active at each of its samples. Only stamps that it gave are given back to it, and with
zombies about it has answered with a hundred entries of garbage, so an entry counts only where it can be true.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from gputop.samplers.nvml_library import NOT_FOUND, UNSUPPORTED_CODES, code_of
from gputop.samplers.protocol import Say

DRY = 5
"""Empty answers in a row after which the whole ring is asked for: the driver's clock may have been set back."""


class Usage:
    """One device's processes. `last_us` is the newest stamp that the driver gave."""

    def __init__(self) -> None:
        self.last_us = 0
        self._empty = 0
        self._newer_call = False

    def ask(self, nvml: Any, handle: Any, say: Say, pids: Collection[int]) -> dict[int, float] | None:
        """Percent of the time since the last call by pid: of the running ones all, idle ones with 0; None where the
        driver doesn't tell. Raises NVML's other errors."""
        try:
            entries = self._entries(nvml, handle, say)
        except Exception as error:
            if code_of(error) not in UNSUPPORTED_CODES and not isinstance(error, AttributeError):
                raise
            return None
        entries = list(entries)
        if not entries:
            self._empty = 0 if self._empty >= DRY else self._empty + 1
        elif self._empty >= DRY and (latest := max(int(entry.timeStamp) for entry in entries)) < self.last_us:
            self.last_us = latest - 1  # the whole ring was asked for: the driver's clock has been set back
        self._empty = 0 if entries else self._empty
        newest: dict[int, tuple[int, float]] = {}
        for entry in entries:
            stamp, share = int(entry.timeStamp), int(entry.smUtil)
            if stamp <= self.last_us or not 0 <= share <= 100 or entry.pid not in pids:
                continue
            if stamp > newest.get(entry.pid, (0, 0.0))[0]:
                newest[entry.pid] = (stamp, float(share))
        self.last_us = max([self.last_us, *(stamp for stamp, _ in newest.values())])
        return {pid: newest[pid][1] if pid in newest else 0.0 for pid in pids}

    def _entries(self, nvml: Any, handle: Any, say: Say) -> Any:
        """By the older call; some drivers for Blackwell know only the newer one."""
        if not self._newer_call:
            say("nvmlDeviceGetProcessUtilization")
            try:
                return _listed(nvml.nvmlDeviceGetProcessUtilization, handle, 0 if self._empty >= DRY else self.last_us)
            except Exception as error:
                if code_of(error) not in UNSUPPORTED_CODES:
                    raise
        say("nvmlDeviceGetProcessesUtilizationInfo")
        found = _listed(nvml.nvmlDeviceGetProcessesUtilizationInfo, handle, 0 if self._empty >= DRY else self.last_us)
        self._newer_call = True
        return found


def _listed(call: Any, handle: Any, since_us: int) -> Any:
    """The entries newer than a stamp; none is no error (the binding raises a success of size 0 too)."""
    try:
        return call(handle, since_us)
    except Exception as error:
        if code_of(error) in (0, NOT_FOUND):
            return []
        raise
