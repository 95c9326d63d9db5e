"""What happens to a machine's clocks beside the monotonic one: the wall clock is set, the machine sleeps."""

from __future__ import annotations

import time
from collections.abc import Callable

S = 1_000_000_000

STEP_NS = 500_000_000
"""A wall clock that moved by more than this against the monotonic one was set, not slewed."""


def since_boot_ns() -> int | None:
    """Time since boot with the time asleep, which the monotonic clock leaves out; None where no clock tells it."""
    try:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):
        return None


class ClockWatch:
    """Says what moved since the last look. `offset_ns`: epoch minus monotonic time at the beginning, now's if None."""

    def __init__(
        self,
        offset_ns: int | None = None,
        *,
        wall: Callable[[], int] = time.time_ns,
        monotonic: Callable[[], int] = time.monotonic_ns,
        boot: Callable[[], int | None] = since_boot_ns,
    ) -> None:
        self._wall, self._monotonic, self._boot = wall, monotonic, boot
        self._offset_ns = wall() - monotonic() if offset_ns is None else offset_ns
        self._asleep_ns = self._asleep()

    def look(self) -> str | None:
        """What has moved, in words; None where nothing has. Time asleep moves the wall clock ahead."""
        offset, asleep = self._wall() - self._monotonic(), self._asleep()
        slept = asleep - self._asleep_ns if asleep is not None and self._asleep_ns is not None else 0
        moved = offset - self._offset_ns - slept
        self._offset_ns, self._asleep_ns = offset, asleep
        said = [f"the machine slept for {slept / S:.1f} s"] if slept > STEP_NS else []
        if abs(moved) > STEP_NS:
            said.append(f"the wall clock was set by {moved / S:+.1f} s")
        return ", ".join(said) or None

    def _asleep(self) -> int | None:
        boot = self._boot()
        return boot - self._monotonic() if boot is not None else None
