"""Where the loop's own time goes: stack samples of the training thread, taken while someone looks.

A sample costs 20 to 30 us, so 20 a second are about 0.05 % of a core. It is taken when the interpreter lets the sending
thread run, which it does at once while the training thread waits or is inside of an operator. While that runs Python
the sample comes late: after the interpreter's switch interval, or when the thread enters an operator before. So a late
one says that Python was running when it was due, whatever the thread is found in.
"""

from __future__ import annotations

import os
import sys
import time

from gputop.publisher.frames import in_torch, user_site
from gputop.records import Site, SiteSample

EVERY_NS = 50_000_000
"""Between two samples: 20 Hz."""

MAX_SITES = 20

HELD_NS = 2_000_000
"""Delay of a sample from which it waited for the interpreter (a thread that may run wakes within 0.2 ms)."""

SWITCHED = 0.9
"""Part of the switch interval from which the thread was made to let go, so that it is found where it ran."""


class Sampling:
    """One second of samples of one thread."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], list[int]] = {}
        self._due = 0
        self._cpu: int | None = None
        self._queued: int | None = None
        self._beside: dict[str, str] = {}

    def take(self, thread: int, phase: str, now: int, late_ns: int = 0) -> None:
        """Sample the thread, if it is time; `phase` is what it is in, `late_ns` how late the caller woke for it."""
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
        site, within = self._where(phase, site, in_torch(frame), self._held(late_ns))
        seen = self._seen.setdefault((phase, site), [0, 0, 0])
        seen[0] += 1
        seen[1] += max(0, spent)
        seen[2] += within

    def _held(self, late_ns: int) -> int:
        """How long, ns, the training thread held the interpreter when the sample was due: not what the sending thread
        waited for a core. 0 where that is not known."""
        before, self._queued = self._queued, _queued_ns()
        if late_ns < HELD_NS or before is None or self._queued is None or self._queued - before > late_ns / 2:
            return 0
        return late_ns

    def _where(self, phase: str, site: str, within: bool, held_ns: int) -> tuple[str, bool]:
        """Where the thread was when the sample was due: if it has entered an operator since, most likely at the line of
        this phase at which it was last found running Python."""
        if not within:
            self._beside[phase] = site
        elif held_ns and held_ns < SWITCHED * sys.getswitchinterval() * 1e9 and phase in self._beside:
            return self._beside[phase], False
        return site, within

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


def _queued_ns() -> int | None:
    """How long the calling thread has been ready to run without a core so far; None where the kernel doesn't say."""
    try:
        file = os.open("/proc/thread-self/schedstat", os.O_RDONLY)
    except OSError:
        return None
    try:
        return int(os.read(file, 80).split()[1])
    except (OSError, ValueError, IndexError):
        return None
    finally:
        os.close(file)
