"""A loader's workers come and go: told as moments, so that an epoch's end is not taken for a crash."""

from __future__ import annotations

from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.oath import confess

EVERY_NS = 10_000_000_000
"""Between two moments of a kind: where epochs are short, workers come and go all the time."""

DIED = "DataLoader worker"
"""How torch's message begins that a worker has died."""


class Workers:
    """What is told of the workers of all loaders of a training."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._told = {"worker_start": -EVERY_NS, "worker_exit": -EVERY_NS}
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

    def failed(self, error: BaseException, now: int) -> None:
        """A request for a batch has raised: because a worker died?"""
        try:
            text = str(error)
            if isinstance(error, RuntimeError) and text.startswith(DIED):
                self._publisher.note("error", now, 0, f"a loader worker died: {text.splitlines()[0][:300]}")
        except Exception as fault:
            confess("workers", fault)

    def _note(self, kind: str, start: int, duration: int, label: str) -> None:
        if self._publisher.started and start - self._told[kind] >= EVERY_NS:
            self._told[kind] = start
            self._publisher.note(kind, start, duration, label)


def _count(workers: int) -> str:
    return f"{workers} worker{'' if workers == 1 else 's'}"
