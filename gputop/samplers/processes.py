"""The training processes and their loader workers each tick, and now and then who else burns the CPUs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from gputop.records import Process, Record, Worker
from gputop.samplers import proc
from gputop.samplers.proc import Stat
from gputop.samplers.protocol import S, Targets
from gputop.samplers.unwatched import Unwatched

SCAN_NS = 5 * S
SCAN_SHARE = 50
"""A scan of every process is followed by a pause of fifty times its cost: at most 2 % of a core, with any number."""

HEAVIEST = 5
MOST_BUSY = 32
"""Busy processes among which trainings that nobody watches are looked for."""

HEAVY_PCT = 10.0
"""Of one core, over a scan's interval: less than that contends with nothing."""

MOST_WORKERS = 256
SERVICES = (
    "resource_tracker",
    "semaphore_tracker",
    "compile_worker",
    "multiprocessing.managers",
    "torch_shm_manager",
    "gputop.samplers",
)
"""Children of a training process that load no data, by their command line."""

FORK_SERVER = "multiprocessing.forkserver"
"""Its children are the workers where the start method is forkserver."""


class Sample(NamedTuple):
    """A process's counters at a moment. `tree_ticks`: CPU time of it and its children, ended ones too."""

    t: int
    stat: Stat
    main_ticks: int | None
    main_wait_ns: int | None
    io: tuple[int, int] | None
    tree_ticks: int | None = None


class Rates(NamedTuple):
    """What two samples of one process give; percent of one core, bytes a second; None where not known."""

    cpu_pct: float | None = None
    system_pct: float | None = None
    main_pct: float | None = None
    wait_pct: float | None = None
    read_bytes_s: float | None = None
    rchar_bytes_s: float | None = None
    tree_pct: float | None = None


class Identity(NamedTuple):
    """What does not change in a process's life."""

    cmdline: str | None
    user: str | None
    executable: str | None


class Processes:
    """Follows processes by pid and start time. One that vanishes between two reads is left out, quietly."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._targets = Targets()
        self._before: dict[int, Sample] = {}
        self._identity: dict[tuple[int, int], Identity] = {}
        self._scanned: dict[int, Stat] = {}
        self._unwatched = Unwatched()
        self._scan_ns = self._due_ns = 0

    def follow(self, targets: Targets) -> None:
        """Follow these from the next tick on; workers are looked for at once."""
        if targets.pids.keys() - self._targets.pids.keys():
            self._due_ns = 0
        self._targets = targets

    def sample(self, now_ns: int) -> list[Record]:
        """One tick."""
        heavy = self._scan(now_ns) if now_ns >= self._due_ns else []
        samples: dict[int, Sample] = {}
        rows: list[Record] = []
        for pid, run_id in self._targets.pids.items():
            sample = _take(pid, now_ns, main=True)
            if sample is None:
                continue
            samples[pid] = sample
            named = self._targets.workers.get(pid, ())
            own = [one for one in named if _descends(one, pid)]
            workers = self._sampled(own, now_ns, samples) or self._sampled(self._found(sample.stat), now_ns, samples)
            sample = samples[pid] = sample._replace(tree_ticks=_tree_ticks(sample.stat, workers, samples))
            rows.append(self._row(sample, run_id, workers))
        self._before = samples
        return rows + heavy

    def spent(self, cost_ns: int, now_ns: int) -> None:
        """Tell what the last tick cost; a costly scan is not repeated soon."""
        if self._scan_ns == now_ns:
            self._due_ns = now_ns + max(SCAN_NS, cost_ns * SCAN_SHARE)

    def _rates(self, sample: Sample) -> Rates:
        before = self._before.get(sample.stat.pid)
        return rates(before, sample) if before else Rates()

    def _row(self, sample: Sample, run_id: str | None, workers: list[Worker]) -> Process:
        stat, rate, known = sample.stat, self._rates(sample), self._known(sample.stat)
        return Process(
            t=sample.t, host=self._host, pid=stat.pid, run_id=run_id, name=stat.name,
            cmdline=known.cmdline if self._targets.cmdline else None, user=known.user, cores_allowed=_allowed(stat.pid),
            cpu_pct=rate.cpu_pct, main_thread_cpu_pct=rate.main_pct, main_thread_wait_pct=rate.wait_pct,
            tree_cpu_pct=rate.tree_pct, threads=stat.threads, rss_bytes=stat.rss_bytes,
            state=stat.state, read_bytes_s=rate.read_bytes_s, rchar_bytes_s=rate.rchar_bytes_s, workers=workers,
            start_ticks=stat.start,
        )  # fmt: skip

    def _sampled(self, pids: Iterable[int], now_ns: int, samples: dict[int, Sample]) -> list[Worker]:
        rows = [self._worker(pid, now_ns, samples) for pid in list(pids)[:MOST_WORKERS]]
        return [row for row in rows if row is not None]

    def _worker(self, pid: int, now_ns: int, samples: dict[int, Sample]) -> Worker | None:
        sample = _take(pid, now_ns)
        if sample is None:
            return None
        samples[pid] = sample
        stat, rate = sample.stat, self._rates(sample)
        return Worker(
            pid=pid, cpu_pct=rate.cpu_pct, system_pct=rate.system_pct, threads=stat.threads, state=stat.state,
            read_bytes_s=rate.read_bytes_s, rchar_bytes_s=rate.rchar_bytes_s, rss_bytes=stat.rss_bytes,
            wait_pct=rate.wait_pct,
        )  # fmt: skip

    def _found(self, parent: Stat) -> list[int]:
        """The children that look like workers, where the publisher has named none that still lives."""
        found = []
        for child in self._children(parent.pid):
            known = self._identify(child)
            if known is None or child in self._targets.pids:
                continue
            if FORK_SERVER in (known.cmdline or ""):
                found += [grandchild for grandchild in self._children(child) if self._is_worker(grandchild, parent)]
            elif self._is_worker(child, parent):
                found.append(child)
        return found

    def _is_worker(self, pid: int, parent: Stat) -> bool:
        """Whether it runs the parent's own interpreter and is no service process."""
        known, above = self._identify(pid), self._known(parent)
        if known is None or pid in self._targets.pids or any(name in (known.cmdline or "") for name in SERVICES):
            return False
        if known.executable is None or above.executable is None:
            return known.cmdline is not None and "python" in known.cmdline.split(" ", 1)[0]
        return known.executable == above.executable

    def _children(self, pid: int) -> list[int]:
        """By the kernel's list of the main thread's children, and by the last scan: other threads start some too."""
        scanned = [stat.pid for stat in self._scanned.values() if stat.ppid == pid]
        try:
            return list(dict.fromkeys([*proc.children(pid), *scanned]))
        except OSError:
            return scanned

    def _identify(self, pid: int) -> Identity | None:
        try:
            return self._known(proc.of(pid))
        except (OSError, ValueError):
            return None

    def _known(self, stat: Stat) -> Identity:
        """Read once a life. A forked worker keeps its parent's command line; an exec changes it, so the young are
        asked again at each scan (see `_forget`)."""
        key = (stat.pid, stat.start)
        known = self._identity.get(key)
        if known is None:
            known = Identity(proc.cmdline(stat.pid), proc.user(stat.pid), proc.executable(stat.pid))
            self._identity[key] = known
        return known

    def _scan(self, now_ns: int) -> list[Record]:
        """Look at every process: whose children they are, and who else uses the CPUs."""
        before, then_ns = self._scanned, self._scan_ns
        self._scanned, self._scan_ns, self._due_ns = _all(), now_ns, now_ns + SCAN_NS
        self._forget()
        if not before or now_ns <= then_ns:
            return []
        ours = {*_with_children(self._targets.pids, self._scanned), *self._before}
        heavy = heaviest(before, self._scanned, now_ns - then_ns, ours, MOST_BUSY)
        used, busy = heavy[:HEAVIEST], [stat for stat, _ in heavy]
        trainings = self._unwatched.of(busy, self._scanned, before, ours, lambda one: self._known(one).cmdline)
        frameworks = {stat.pid: framework for stat, framework in trainings}
        used += [
            (stat, _pct(before[stat.pid], stat, now_ns - then_ns))
            for stat, _ in trainings
            if stat not in busy[:HEAVIEST]
        ]
        return [self._other(stat, pct, now_ns, frameworks.get(stat.pid)) for stat, pct in used]

    def _other(self, stat: Stat, pct: float, now_ns: int, framework: str | None) -> Process:
        known = self._known(stat)
        return Process(
            t=now_ns, host=self._host, pid=stat.pid, name=stat.name, user=known.user, cpu_pct=round(pct, 1),
            cmdline=known.cmdline if self._targets.cmdline else None, threads=stat.threads, rss_bytes=stat.rss_bytes,
            state=stat.state, start_ticks=stat.start, framework=framework,
        )  # fmt: skip

    def _forget(self) -> None:
        followed = {*self._targets.pids, *self._before}
        self._identity = {key: known for key, known in self._identity.items() if key[0] in followed}


def _all() -> dict[int, Stat]:
    stats = {}
    for pid in proc.pids():
        try:
            stats[pid] = proc.of(pid)
        except (OSError, ValueError):
            continue
    return stats


def _with_children(pids: Iterable[int], scanned: Mapping[int, Stat]) -> set[int]:
    """Processes and all that they have started, whose use of the CPUs is no other's: also in the tick in which a run
    is met, before any of its workers has been sampled."""
    below: dict[int, list[int]] = {}
    for stat in scanned.values():
        below.setdefault(stat.ppid, []).append(stat.pid)
    found: set[int] = set()
    waiting = list(pids)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.add(pid)
            waiting += below.get(pid, ())
    return found


def _descends(pid: int, ancestor: int) -> bool:
    """Whether a process is a child of another, or of its fork server: the number of one that has ended may be anyone's
    by now."""
    try:
        parent = proc.of(pid).ppid
        return parent == ancestor or (parent > 1 and proc.of(parent).ppid == ancestor)
    except (OSError, ValueError):
        return False


def _allowed(pid: int) -> int | None:
    """How many cores it may run on, by its affinity mask (of the cpuset too); None where that can't be asked."""
    try:
        return len(os.sched_getaffinity(pid))
    except (OSError, AttributeError):
        return None


def _take(pid: int, now_ns: int, *, main: bool = False) -> Sample | None:
    """The process's counters, None when it is gone."""
    try:
        stat = proc.of(pid)
    except (OSError, ValueError):
        return None
    main_ticks, main_wait = None, proc.wait_ns(f"/proc/{pid}/task/{pid}/schedstat")
    if main:
        try:
            thread = proc.stat(f"/proc/{pid}/task/{pid}/stat")
            main_ticks = thread.user_ticks + thread.system_ticks
        except (OSError, ValueError):
            pass
    try:
        io = proc.io(pid)
    except (OSError, ValueError, KeyError):
        io = None
    return Sample(now_ns, stat, main_ticks, main_wait, io)


def _tree_ticks(parent: Stat, workers: Iterable[Worker], samples: Mapping[int, Sample]) -> int:
    """CPU time of a process and its children. Loader workers may live for less than a tick: their time is counted when
    they have ended, so it is no other's."""
    living = {worker.pid: samples[worker.pid].stat for worker in workers}
    try:
        started = proc.children(parent.pid)
    except OSError:
        started = []
    for pid in started:
        if pid not in living and pid not in samples:
            try:
                living[pid] = proc.of(pid)
            except (OSError, ValueError):
                continue
    return sum(stat.user_ticks + stat.system_ticks + stat.ended_ticks for stat in (parent, *living.values()))


def rates(before: Sample, now: Sample) -> Rates:
    """What happened between two samples; nothing known when the pid is another process's by now."""
    passed = now.t - before.t
    if before.stat.start != now.stat.start or passed <= 0:
        return Rates()

    def pct(ticks: int) -> float:
        return round(max(ticks, 0) * proc.TICK_NS * 100.0 / passed, 2)

    user = now.stat.user_ticks - before.stat.user_ticks
    system = now.stat.system_ticks - before.stat.system_ticks
    main = None
    if now.main_ticks is not None and before.main_ticks is not None:
        main = pct(now.main_ticks - before.main_ticks)
    wait = None
    if now.main_wait_ns is not None and before.main_wait_ns is not None:
        wait = round(100.0 * max(now.main_wait_ns - before.main_wait_ns, 0) / passed, 2)
    read = rchar = None
    if now.io and before.io:
        read, rchar = (round(max(a - b, 0) * S / passed, 1) for a, b in zip(now.io, before.io, strict=True))
    tree = None
    if now.tree_ticks is not None and before.tree_ticks is not None:
        tree = pct(now.tree_ticks - before.tree_ticks)
    return Rates(pct(user + system), pct(system), main, wait, read, rchar, tree)


def heaviest(
    before: Mapping[int, Stat], now: Mapping[int, Stat], passed_ns: int, leave_out: Iterable[int], most: int = HEAVIEST
) -> list[tuple[Stat, float]]:
    """The processes that used the most CPU between two scans, at least HEAVY_PCT of a core, without those left out."""
    apart = set(leave_out)
    used = []
    for pid, stat in now.items():
        old = before.get(pid)
        if pid in apart or old is None or old.start != stat.start:
            continue
        pct = _pct(old, stat, passed_ns)
        if pct >= HEAVY_PCT:
            used.append((stat, pct))
    return sorted(used, key=lambda one: -one[1])[:most]


def _pct(before: Stat, now: Stat, passed_ns: int) -> float:
    """CPU time between two looks at a process, as a percentage of one core."""
    ticks = now.user_ticks + now.system_ticks - before.user_ticks - before.system_ticks
    return ticks * proc.TICK_NS * 100.0 / passed_ns
