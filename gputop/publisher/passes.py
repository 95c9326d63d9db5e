"""One explicit pass over an iterable: every item it gives is the batch of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import monotonic_ns
from typing import Any, Generic, TypeVar

from gputop.publisher import core
from gputop.publisher.core import Publisher
from gputop.publisher.hooks.batch import samples_of
from gputop.publisher.oath import confess
from gputop.publisher.segment import Segment, Source

T = TypeVar("T")


class Pass(Generic[T]):
    """An iterator that tells the step clock of its requests. Where it can't, it is the plain iterator."""

    __slots__ = ("__weakref__", "_counts", "_iterable", "_iterator", "_publisher", "_source")

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self._counts = hasattr(iterable, "ready_batches")
        self._publisher, self._source = _begin(iterable)
        publisher, source = self._publisher, self._source
        if publisher is None or source is None:
            self._iterator: Iterator[T] = iter(iterable)
            return
        asked = publisher.ledger.request(source, monotonic_ns(), construct=True)
        try:
            self._iterator = iter(iterable)
        finally:
            if asked:
                publisher.ledger.arrive(monotonic_ns())
        _describe(publisher, iterable, self._iterator, source)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        publisher, source = self._publisher, self._source
        if publisher is None or source is None or not publisher.mine():
            return next(self._iterator)
        ledger = publisher.ledger
        try:
            asked = ledger.request(source, monotonic_ns())
        except Exception as error:
            publisher.fault("steps", error)
            return next(self._iterator)
        try:
            item = next(self._iterator)
        except BaseException as error:
            if asked:
                _failed(publisher, source, exhausted=isinstance(error, StopIteration))
            raise
        if asked:
            try:
                seg = ledger.arrive(monotonic_ns(), samples_of(item))
                if self._counts and seg is not None:
                    _queue(seg, self._iterable)
            except Exception as error:
                publisher.fault("steps", error)
        return item

    def close(self) -> None:
        """End the pass early; what it iterates over is closed too where it can be."""
        self._leave()
        close = getattr(self._iterator, "close", None)
        if close is not None:
            close()

    def __del__(self) -> None:
        self._leave()

    def _leave(self) -> None:
        try:
            publisher, source = self._publisher, self._source
            if publisher is not None and source is not None and source.open and publisher.mine():
                publisher.ledger.close(source, monotonic_ns())
        except Exception as error:
            confess("steps", error)


def _begin(iterable: Any) -> tuple[Publisher | None, Source | None]:
    """The publisher and a source for this pass; nothing where it is switched off or on another thread."""
    try:
        if core.switched_off():
            return None, None
        publisher = core.publisher()
        if not publisher.started and not core.in_loader_worker():
            from gputop.publisher import arm

            arm.find_device(publisher)
        if not publisher.trains():
            return None, None
        return publisher, publisher.new_pass(iterable, declared=True)
    except Exception as error:
        confess("steps", error)
        return None, None


def _describe(publisher: Publisher, iterable: Any, iterator: Any, source: Source) -> None:
    try:
        workers = getattr(iterator, "_workers", None)
        pids = [worker.pid for worker in workers] if isinstance(workers, list) else None
        if pids is None:
            named = getattr(iterable, "worker_pids", None)
            pids = list(named) if isinstance(named, list | tuple) else None
        if hasattr(iterable, "num_workers") or hasattr(iterable, "dataset"):
            publisher.describe_loader(iterable, source, pids)
    except Exception as error:
        confess("loader", error)


def _failed(publisher: Publisher, source: Source, *, exhausted: bool) -> None:
    try:
        publisher.ledger.fail(monotonic_ns())
        if exhausted:
            publisher.ledger.close(source, monotonic_ns())
    except Exception as error:
        publisher.fault("steps", error)


def _queue(seg: Segment, loader: Any) -> None:
    """What a loader that counts its own queue says of it."""
    ready, late = loader.ready_batches, getattr(loader, "late_ready", None)
    if isinstance(ready, int):
        seg.say(ready_batches=ready)
    if isinstance(late, int):
        seg.say(late_ready=late)
