"""The DataLoader: waits in its iterator's `__next__` (whose type stays as it is) and the making of iterators."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from threading import get_ident
from time import monotonic_ns
from typing import Any

from gputop.publisher.core import Publisher
from gputop.publisher.hooks.batch import samples_of
from gputop.publisher.hooks.patch import all_of, replace
from gputop.publisher.segment import Segment, Source

SOURCE = "_gputop_pass"
"""Where an iterator keeps the pass that it is."""

LONG_WAIT_NS = 1_000_000
"""A wait above this is looked into: were later batches ready meanwhile?"""


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook every iterator class of torch's DataLoader and `DataLoader.__iter__`."""
    dataloader = sys.modules["torch.utils.data.dataloader"]
    base = dataloader._BaseDataLoaderIter
    classes = [cls for cls in (base, *_subclasses(base)) if "__next__" in vars(cls)]
    undos = [replace(cls, "__next__", lambda original: _next(publisher, original)) for cls in classes]
    undos.append(replace(dataloader.DataLoader, "__iter__", lambda original: _iter(publisher, original)))
    return all_of(undos)


def _subclasses(cls: type) -> list[type]:
    found: list[type] = list(cls.__subclasses__())
    return found + [deeper for one in found for deeper in _subclasses(one)]


def _next(publisher: Publisher, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:  # noqa: N807
        if get_ident() != publisher.thread:
            return original(self)
        ledger = publisher.ledger
        ready = None
        try:
            source = self.__dict__.get(SOURCE)
            if source is None:
                source = _adopt(publisher, self, publisher.new_pass(self))
            if self._num_workers:
                ready = _ready(self)
            asked_at = monotonic_ns()
            asked = ledger.request(source, asked_at)
        except Exception as error:
            publisher.fault("loader", error)
            return original(self)
        try:
            batch = original(self)
        except BaseException as error:
            if asked:
                _failed(publisher, source, exhausted=isinstance(error, StopIteration))
            raise
        if asked:
            try:
                now = monotonic_ns()
                seg = ledger.arrive(now, samples_of(batch))
                if ready is not None and seg is not None:
                    _tell_queue(seg, self, ready, now - asked_at)
            except Exception as error:
                publisher.fault("loader", error)
        return batch

    return __next__


def _iter(publisher: Publisher, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __iter__(self: Any) -> Any:  # noqa: N807
        if not publisher.mine():
            return original(self)
        try:
            source = publisher.new_pass(self)
            asked = publisher.ledger.request(source, monotonic_ns(), construct=True)
        except Exception as error:
            publisher.fault("loader", error)
            return original(self)
        try:
            iterator = original(self)
        except BaseException:
            if asked:
                _failed(publisher, source, exhausted=False)
            raise
        try:
            if asked:
                publisher.ledger.arrive(monotonic_ns())
                _adopt(publisher, iterator, source)
            workers = getattr(iterator, "_workers", None)
            publisher.describe_loader(self, source, [worker.pid for worker in workers] if workers else None)
        except Exception as error:
            publisher.fault("loader", error)
        return iterator

    return __iter__


def _adopt(publisher: Publisher, iterator: Any, source: Source) -> Source:
    """The iterator is this pass; when the loop drops it early, the pass is over."""
    setattr(iterator, SOURCE, source)

    def dropped(_: object) -> None:
        try:
            if source.open and publisher.mine():
                publisher.ledger.close(source, monotonic_ns())
        except Exception as error:
            publisher.fault("loader", error)

    source.ref = weakref.ref(iterator, dropped)
    return source


def _failed(publisher: Publisher, source: Source, *, exhausted: bool) -> None:
    try:
        now = monotonic_ns()
        publisher.ledger.fail(now)
        if exhausted:
            publisher.ledger.close(source, now)
    except Exception as error:
        publisher.fault("loader", error)


def _ready(iterator: Any) -> int | None:
    """Batches that wait in the queue or were put aside since an earlier one is still missing."""
    try:
        waiting = int(iterator._data_queue.qsize())
    except (AttributeError, NotImplementedError, OSError):
        return None
    return waiting + _aside(iterator)


def _aside(iterator: Any) -> int:
    return sum(len(task) == 2 for task in iterator._task_info.values())


def _tell_queue(seg: Segment, iterator: Any, ready: int, waited: int) -> None:
    seg.say(ready_batches=ready)
    if waited > LONG_WAIT_NS and ready == 0:
        later = _ready(iterator)
        if later is not None:
            seg.say(late_ready=later)
