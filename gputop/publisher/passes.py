"""One explicit pass over an iterable: every item it gives is the batch of a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from threading import get_ident
from time import monotonic_ns, thread_time_ns
from typing import Any, Generic, TypeVar

from gputop.publisher import core
from gputop.publisher.core import Publisher
from gputop.publisher.detail import (
    LOOK_EVERY,
    SLOW_NS,
    in_detail,
    look,
    miss_counted,
    passes_over,
    resume,
    take_counted,
    unusual,
)
from gputop.publisher.entries import ARRIVE, CLOSE, CONSTRUCT, COUNT, CPU, CPU_FROM_NS, FAIL, QUEUE, REQUEST
from gputop.publisher.hooks.batch import NOT_A_BATCH, samples_of
from gputop.publisher.oath import confess
from gputop.publisher.process import in_loader_worker, switched_off
from gputop.publisher.segment import Source

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
        nested = publisher.asking
        if not nested:
            now = monotonic_ns()
            publisher.put((CPU, thread_time_ns(), now))
            publisher.put((CONSTRUCT, source, now))
            publisher.asking = True
        try:
            self._iterator = iter(iterable)
        finally:
            if not nested:
                publisher.asking = False
                publisher.put((ARRIVE, None, monotonic_ns()))
        _describe(publisher, iterable, self._iterator, source)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        publisher = self._publisher
        if publisher is None or get_ident() != publisher.thread or publisher.asking:
            return next(self._iterator)
        source: Any = self._source
        skip = publisher.skip
        if skip:
            asked = monotonic_ns()
            most = SLOW_NS if skip > 1 else publisher.resumes_ns
            if source is publisher.told and asked - publisher.asked_at < most:
                publisher.asked_at = asked
                publisher.asking = True
                try:
                    item = next(self._iterator)
                except BaseException as error:
                    miss_counted(publisher, source, asked)
                    _failed(publisher, source, exhausted=isinstance(error, StopIteration))
                    raise
                publisher.asking = False
                if take_counted(publisher, asked):
                    return item
                now = monotonic_ns()
                resume(publisher, _samples(item), now)
                self._tell(publisher, now)
                return item
            in_detail(publisher, asked)
        asked = monotonic_ns()
        slow = asked - publisher.asked_at > CPU_FROM_NS
        if slow:
            publisher.put((CPU, thread_time_ns(), asked))
        publisher.asked_at = asked
        publisher.put((REQUEST, source, asked))
        publisher.asking = True
        try:
            item = next(self._iterator)
        except BaseException as error:
            _failed(publisher, source, exhausted=isinstance(error, StopIteration))
            raise
        publisher.asking = False
        publisher.requests += 1
        now = monotonic_ns()
        if publisher.every > 1 and passes_over(publisher, source):
            publisher.put((COUNT, None, now))
            return item
        publisher.put((ARRIVE, _samples(item), now))
        if slow:
            shapes = publisher.shapes.see(source.loader_id, item)
            if shapes is not None:
                publisher.put((QUEUE, {"shapes": shapes}, now))
        self._tell(publisher, now)
        return item

    def _tell(self, publisher: Publisher, now: int) -> None:
        """The item is here, of a step told in detail."""
        if self._counts:
            _queue(publisher, self._iterable)
        if publisher.reads or publisher.requests % LOOK_EVERY == 0:
            look(publisher, now, publisher.requests)

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
            if publisher is not None and source is not None and not source.over and publisher.mine():
                source.over = True
                unusual(publisher)
                publisher.put((CLOSE, source, monotonic_ns()))
        except Exception as error:
            confess("steps", error)


def _samples(item: Any) -> int | None:
    """How many samples an item holds."""
    return None if type(item) in NOT_A_BATCH else samples_of(item)


def _begin(iterable: Any) -> tuple[Publisher | None, Source | None]:
    """The publisher and a source for this pass; nothing where it is switched off or on another thread."""
    try:
        if switched_off():
            return None, None
        publisher = core.publisher()
        if publisher.mine():
            unusual(publisher)
        if not publisher.started and not in_loader_worker():
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


def _failed(publisher: Publisher, source: Source | None, *, exhausted: bool) -> None:
    """A request has ended without an item."""
    publisher.asking = False
    now = monotonic_ns()
    publisher.put((FAIL, thread_time_ns(), now))
    if exhausted and source is not None:
        source.over = True
        publisher.put((CLOSE, source, now))


def _queue(publisher: Publisher, loader: Any) -> None:
    """What a loader that counts its own queue says of it."""
    try:
        said = {"ready_batches": loader.ready_batches, "late_ready": getattr(loader, "late_ready", None)}
        fields = {name: value for name, value in said.items() if isinstance(value, int)}
        publisher.put((QUEUE, fields, monotonic_ns()))
    except Exception as error:
        publisher.fault("steps", error)
