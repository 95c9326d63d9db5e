"""Where the loop's own time goes: stack samples of the training thread, taken while someone looks.

A sample costs 20 to 30 us, so 20 a second are about 0.05 % of a core. It is taken whenever the interpreter lets the
sending thread run, which is mostly while the training thread waits or computes outside of it.
"""

from __future__ import annotations

import sys
import time

from gputop.publisher.frames import in_torch, user_site
from gputop.records import Site, SiteSample

EVERY_NS = 50_000_000
"""Between two samples: 20 Hz."""

MAX_SITES = 20


class Sampling:
    """One second of samples of one thread."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], list[int]] = {}
        self._due = 0
        self._cpu: int | None = None

    def take(self, thread: int, phase: str, now: int) -> None:
        """Sample the thread, if it is time; `phase` is what it is in."""
        if now < self._due:
            return
        self._due = now + EVERY_NS
        frame = sys._current_frames().get(thread)
        site = user_site(frame)
        if site is None:
            return
        cpu = _thread_cpu_ns(thread)
        spent = cpu - self._cpu if cpu is not None and self._cpu is not None else 0
        self._cpu = cpu
        seen = self._seen.setdefault((phase, site), [0, 0, 0])
        seen[0] += 1
        seen[1] += max(0, spent)
        seen[2] += in_torch(frame)

    def record(self, run_id: str, t: int) -> Site | None:
        """What was seen since the last call, the most frequent first."""
        if not self._seen:
            return None
        ranked = sorted(self._seen.items(), key=lambda item: -item[1][0])[:MAX_SITES]
        self._seen = {}
        sites = [
            SiteSample(phase=phase, site=site, samples=n, cpu_ns=cpu, in_torch=within)
            for (phase, site), (n, cpu, within) in ranked
        ]
        return Site(t=t, run_id=run_id, sites=sites)


def _thread_cpu_ns(thread: int) -> int | None:
    try:
        return time.clock_gettime_ns(time.pthread_getcpuclockid(thread))
    except (AttributeError, OSError):
        return None
