"""How a process loads its data, as its stacks and its children show it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gputop.samplers import proc
from gputop.samplers.attach.stacks import Frame, Thread

LOADER = "torch/utils/data/dataloader.py"
IN_PROCESS, BY_WORKERS = "_SingleProcessDataLoaderIter", "_MultiProcessingDataLoaderIter"
WORKER_ONLY = ("_get_data", "_try_get_data")
"""Methods that only an iterator with workers has: before Python 3.11 frames don't name their class."""

PINNING = "_pin_memory_loop"
SERVICES = ("resource_tracker", "compile_worker", "torch_shm_manager", "multiprocessing.managers", "gputop.samplers")
FORK_SERVER = "multiprocessing.forkserver"


class Loading(NamedTuple):
    """The loader's workers (none: the training thread loads by itself) and whether a thread pins their batches."""

    worker_pids: tuple[int, ...]
    pin_memory: bool | None


def read(pid: int, threads: list[Thread], main: Thread) -> Loading | None:
    """What the stacks show, None where no loader of torch's was seen at work."""
    named = {frame.name for frame in _frames(main) if frame.file.endswith(LOADER)}
    if any(name.startswith(BY_WORKERS) or name.rpartition(".")[2] in WORKER_ONLY for name in named):
        pinned = any(frame.name == PINNING for thread in threads for frame in _frames(thread))
        return Loading(tuple(sorted(workers(pid))), pinned)
    return Loading((), None) if named else None


def workers(pid: int) -> list[int]:
    """Children that look like loader workers, the busiest first: they run the same program and are no service."""
    found: dict[int, int] = {}
    program = proc.executable(pid)
    for child in _children(pid):
        try:
            words = " ".join(proc.arguments(child))
            if FORK_SERVER in words:
                candidates = _children(child)
            else:
                candidates = [] if any(name in words for name in SERVICES) else [child]
            for one in candidates:
                if program is None or proc.executable(one) == program:
                    stat = proc.of(one)
                    found[one] = stat.user_ticks + stat.system_ticks
        except (OSError, ValueError):
            continue
    return sorted(found, key=lambda one: -found[one])


def busiest(pids: Iterable[int]) -> list[int]:
    """Those of these processes that are there, the one that has used the most CPU first."""
    found: dict[int, int] = {}
    for pid in pids:
        try:
            stat = proc.of(pid)
        except (OSError, ValueError):
            continue
        if stat.state != "Z":
            found[pid] = stat.user_ticks + stat.system_ticks
    return sorted(found, key=lambda one: -found[one])


def _children(pid: int) -> list[int]:
    try:
        return proc.children(pid)
    except (OSError, ValueError):
        return []


def _frames(thread: Thread) -> Iterable[Frame]:
    return {frame for stretch in thread.stretches for frame in stretch.frames}
