"""Which of the busiest processes are of a training that nobody watches: one with a framework loaded, and no publisher.

What is busy may be a loader worker of it: those are followed up to the process that started them, by how they were
started. Where that leaves a doubt (a process that only waits for the one it has started), nothing is named.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from gputop.samplers import proc
from gputop.samplers.proc import Stat

STARTED = ("multiprocessing.spawn", "--multiprocessing-fork", "multiprocessing.forkserver", "compile_worker")
"""Words in the command line of what another Python process has started to work for it."""

LAUNCHERS = ("torchrun", "torch.distributed.run", "torch.distributed.launch", "accelerate", "deepspeed", "mpirun")
"""Words in the command line of what starts trainings and trains nothing itself."""

HIGHEST = 4
"""Parents followed at most: a worker, its fork server, the training."""


class Unwatched:
    """Remembers what was busy a scan ago, so that nothing is named for one burst."""

    def __init__(self, framework: Callable[[int], str | None] | None = None) -> None:
        self._framework = framework or _framework
        self._known: dict[tuple[int, int], str] = {}
        self._before: set[tuple[int, int]] = set()

    def of(
        self,
        busy: Iterable[Stat],
        now: Mapping[int, Stat],
        before: Mapping[int, Stat],
        ours: Collection[int],
        cmdline: Callable[[Stat], str | None],
    ) -> list[tuple[Stat, str]]:
        """The trainings, each with its framework. `busy` are the busiest processes, `now` and `before` every process at
        this scan and the last; `ours` are watched. `cmdline` gives a command line."""
        found: dict[tuple[int, int], tuple[Stat, str]] = {}
        for stat in busy:
            top = _top(stat, now, ours, cmdline)
            if top is None or not _worked(top, before) or _any(LAUNCHERS, cmdline(top)):
                continue
            key = (top.pid, top.start)
            framework = self._known.get(key) or self._framework(top.pid)
            if framework is not None:
                found[key] = (top, framework)
        self._known = {key: framework for key, (_, framework) in found.items()}
        steady, self._before = self._before & found.keys(), set(found)
        return [found[key] for key in sorted(steady)]


def _top(
    stat: Stat, now: Mapping[int, Stat], ours: Collection[int], cmdline: Callable[[Stat], str | None]
) -> Stat | None:
    """The process that works for itself: what is busy, or what has started it to work; None where that is watched."""
    for _ in range(HIGHEST):
        if stat.pid in ours:
            return None
        own, parent = cmdline(stat), now.get(stat.ppid)
        forked = parent is not None and own is not None and own == cmdline(parent)
        if not forked and not _any(STARTED, own):
            return stat
        if parent is None:
            return None
        stat = parent
    return None


def _worked(stat: Stat, before: Mapping[int, Stat]) -> bool:
    """Whether it has done anything itself since the last scan."""
    old = before.get(stat.pid)
    ticks = stat.user_ticks + stat.system_ticks
    return old is not None and old.start == stat.start and ticks > old.user_ticks + old.system_ticks


def _any(words: Iterable[str], line: str | None) -> bool:
    return line is not None and any(word in line for word in words)


def _framework(pid: int) -> str | None:
    """The framework of a Python process; None where none is loaded, or its memory's map is not ours to read."""
    from gputop.samplers.attach import identity

    return identity.framework(pid) if "python" in (proc.executable(pid) or "").rpartition("/")[2] else None
