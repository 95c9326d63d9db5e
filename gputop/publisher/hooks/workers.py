"""A loader's workers come and go: told as moments, so that an epoch's end is not taken for a crash."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.patch import replace
from gputop.publisher.oath import confess

EVERY_NS = 10_000_000_000
"""Between two moments of a kind: where epochs are short, workers come and go all the time."""

DIED = "DataLoader worker"
"""What torch says when it notices that a worker has died."""

SAME_DEATH_NS = 5_000_000_000
"""Within this time, what is raised of a dead worker is about the same one."""


def install(workers: Workers) -> Callable[[], None]:
    """Hook what torch's handler of that signal calls: it raises wherever the training thread happens to be."""

    def watched(original: Callable[[], None]) -> Callable[[], None]:
        def _error_if_any_worker_fails() -> None:
            try:
                original()
            except RuntimeError as error:
                workers.failed(error, monotonic_ns())
                raise

        return _error_if_any_worker_fails

    return replace(sys.modules["torch.utils.data._utils.signal_handling"], "_error_if_any_worker_fails", watched)


class Workers:
    """What is told of the workers of all loaders of a training."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._told = {"worker_start": -EVERY_NS, "worker_exit": -EVERY_NS}
        self._death = -SAME_DEATH_NS
        self._pids: dict[int | None, list[int]] = {}

    def started(self, iterator: Any, loader_id: int | None, start: int, now: int) -> None:
        """An iterator was made between `start` and `now`, monotonic ns."""
        pids = [worker.pid for worker in getattr(iterator, "_workers", None) or ()]
        if pids and pids != self._pids.get(loader_id):  # persistent ones stay
            self._pids[loader_id] = pids
            self._note("worker_start", start, now - start, f"{_count(len(pids))} of loader {loader_id}")

    def done(self, iterator: Any, loader_id: int | None, now: int) -> None:
        """A pass is over: its workers go, but for persistent ones."""
        workers = getattr(iterator, "_workers", None)
        if workers and not getattr(iterator, "_persistent_workers", False):
            self._note("worker_exit", now, 0, f"{_count(len(workers))} of loader {loader_id}: the epoch is over")

    def failed(self, error: BaseException, now: int, iterator: Any = None) -> None:
        """A request for a batch has raised, or the signal that a child has ended: because a worker died?

        What its last batch was shared through is gone with it, so that anything may be raised.
        """
        try:
            if now - self._death < SAME_DEATH_NS:
                return
            text = f"{type(error).__name__}: {error}".splitlines()[0]
            dead = [one.exitcode for one in getattr(iterator, "_workers", None) or () if not one.is_alive()]
            if DIED in text or any(dead):
                self._death = now
                self._publisher.note("error", now, 0, f"a loader worker died: {text[:300]}")
        except Exception as fault:
            confess("workers", fault)

    def _note(self, kind: str, start: int, duration: int, label: str) -> None:
        if self._publisher.started and start - self._told[kind] >= EVERY_NS:
            self._told[kind] = start
            self._publisher.note(kind, start, duration, label)


def _count(workers: int) -> str:
    return f"{workers} worker{'' if workers == 1 else 's'}"
