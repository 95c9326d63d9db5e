"""The DataLoader: waits in its iterator's `__next__` (whose type stays as it is) and the making of iterators."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from inspect import CO_GENERATOR
from threading import get_ident
from time import monotonic_ns, thread_time_ns
from types import FrameType
from typing import Any

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
from gputop.publisher.hooks.batch import samples_of
from gputop.publisher.hooks.patch import all_of, replace
from gputop.publisher.hooks.workers import Workers
from gputop.publisher.hooks.workers import install as install_workers
from gputop.publisher.segment import Source

SOURCE = "_gputop_pass"
"""Where an iterator keeps the pass that it is."""

LONG_WAIT_NS = 1_000_000
"""A wait above this is looked into: were later batches ready meanwhile?"""


def install(publisher: Publisher) -> Callable[[], None]:
    """Hook every iterator class of torch's DataLoader and `DataLoader.__iter__`."""
    dataloader = sys.modules["torch.utils.data.dataloader"]
    base = dataloader._BaseDataLoaderIter
    classes = [cls for cls in (base, *_subclasses(base)) if "__next__" in vars(cls)]
    workers = Workers(publisher)
    undos = [replace(cls, "__next__", lambda original: _next(publisher, workers, original)) for cls in classes]
    undos.append(replace(dataloader.DataLoader, "__iter__", lambda original: _iter(publisher, workers, original)))
    undos.append(install_workers(workers))
    return all_of(undos)


def _subclasses(cls: type) -> list[type]:
    found: list[type] = list(cls.__subclasses__())
    return found + [deeper for one in found for deeper in _subclasses(one)]


def _next(publisher: Publisher, workers: Workers, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __next__(self: Any) -> Any:  # noqa: N807
        if get_ident() != publisher.thread or publisher.asking:
            return original(self)
        try:
            source: Source = self._gputop_pass  # SOURCE, spelt out: found sooner
        except AttributeError:
            source = _adopted(publisher, self)
        skip = publisher.skip
        if skip:
            asked = monotonic_ns()
            most = SLOW_NS if skip > 1 else publisher.resumes_ns
            if source is publisher.told and publisher.worked and asked - publisher.asked_at < most:
                ready = _ready(self) if skip == 1 and self._num_workers else None
                publisher.asked_at = asked
                publisher.worked = False
                publisher.asking = True
                try:
                    batch = original(self)
                except BaseException as error:
                    publisher.worked = True
                    miss_counted(publisher, source, asked)
                    _ended(publisher, workers, self, source, error)
                    raise
                publisher.asking = False
                if take_counted(publisher, asked):
                    return batch
                now = monotonic_ns()
                resume(publisher, _samples(batch), now)
                _tell(publisher, self, ready, asked, now)
                return batch
            in_detail(publisher, asked)
        ready = _ready(self) if self._num_workers else None
        asked = monotonic_ns()
        slow = asked - publisher.asked_at > CPU_FROM_NS
        if slow:
            publisher.put((CPU, thread_time_ns(), asked))
        publisher.asked_at = asked
        publisher.put((REQUEST, source, asked))
        publisher.asking = True
        try:
            batch = original(self)
        except BaseException as error:
            _ended(publisher, workers, self, source, error)
            raise
        publisher.asking = False
        publisher.requests += 1
        now = monotonic_ns()
        if publisher.every > 1 and passes_over(publisher, source):
            publisher.put((COUNT, None, now))
            return batch
        publisher.put((ARRIVE, _samples(batch), now))
        if slow and (shapes := publisher.shapes.see(source.loader_id, batch)) is not None:
            publisher.put((QUEUE, {"shapes": shapes}, now))
        _tell(publisher, self, ready, asked, now)
        return batch

    return __next__


def _samples(batch: Any) -> int | None:
    """How many samples a batch holds; nearly every one is a list of tensors."""
    try:
        return batch[0].shape[0] if type(batch) is list else samples_of(batch)
    except Exception:
        return samples_of(batch)


def _tell(publisher: Publisher, iterator: Any, ready: int | None, asked: int, now: int) -> None:
    """The batch asked for at `asked` is here, of a step told in detail."""
    if ready is not None:
        _tell_queue(publisher, iterator, ready, now - asked)
    if publisher.reads or publisher.requests % LOOK_EVERY == 0:
        look(publisher, now, publisher.requests)


def _ended(publisher: Publisher, workers: Workers, iterator: Any, source: Source, error: BaseException) -> None:
    """A request made by the caller's caller has ended without a batch."""
    over = isinstance(error, StopIteration)
    _failed(publisher, source, exhausted=over and not _kept(iterator, sys._getframe(2)))
    if iterator._num_workers:
        _tell_workers(workers, iterator, source, error)


def _iter(publisher: Publisher, workers: Workers, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def __iter__(self: Any) -> Any:  # noqa: N807
        if not publisher.mine():
            return original(self)
        asked, start = False, monotonic_ns()
        try:
            source = publisher.new_pass(self)
            if not publisher.asking:
                now = monotonic_ns()
                publisher.put((CPU, thread_time_ns(), now))
                publisher.put((CONSTRUCT, source, now))
                asked = publisher.asking = True
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
                publisher.asking = False
                publisher.put((ARRIVE, None, monotonic_ns()))
                _adopt(publisher, iterator, source)
                workers.started(iterator, source.loader_id, start, monotonic_ns())
            crew = getattr(iterator, "_workers", None)
            publisher.describe_loader(self, source, [worker.pid for worker in crew] if crew else None)
        except Exception as error:
            publisher.fault("loader", error)
        return iterator

    return __iter__


def _adopted(publisher: Publisher, iterator: Any) -> Source:
    """An iterator that was made before anyone watched."""
    try:
        return _adopt(publisher, iterator, publisher.new_pass(iterator))
    except Exception as error:
        publisher.fault("loader", error)
        return Source(None)


def _adopt(publisher: Publisher, iterator: Any, source: Source) -> Source:
    """The iterator is this pass; when the loop drops it early, the pass is over."""
    setattr(iterator, SOURCE, source)

    def dropped(_: object) -> None:
        try:
            if not source.over and publisher.mine():
                source.over = True
                unusual(publisher)
                publisher.put((CLOSE, source, monotonic_ns()))
        except Exception as error:
            publisher.fault("loader", error)

    source.ref = weakref.ref(iterator, dropped)
    return source


def _failed(publisher: Publisher, source: Source, *, exhausted: bool) -> None:
    """A request has ended without a batch."""
    publisher.asking = False
    now = monotonic_ns()
    publisher.put((FAIL, thread_time_ns(), now))
    if exhausted:
        source.over = True
        publisher.put((CLOSE, source, now))


def _tell_workers(workers: Workers, iterator: Any, source: Source, error: BaseException) -> None:
    """No batch came from a loader with workers: are they gone, as they should, or has one died?"""
    if isinstance(error, StopIteration):
        workers.done(iterator, source.loader_id, monotonic_ns())
    else:
        workers.failed(error, monotonic_ns(), iterator)


def _kept(iterator: Any, caller: FrameType) -> bool:
    """Whether a generator between iterator and loop may still hold a batch: it drops the iterator when all is over.

    Persistent workers' iterator is never dropped.
    """
    return bool(caller.f_code.co_flags & CO_GENERATOR) and not getattr(iterator, "_persistent_workers", False)


def _ready(iterator: Any) -> int | None:
    """Batches that wait in the queue or were put aside since an earlier one is still missing."""
    try:
        return int(iterator._data_queue.qsize()) + _put_aside(iterator)
    except Exception:  # another version's iterator, or a platform whose queues have no size
        return None


def _put_aside(iterator: Any) -> int:
    """Batches that came before an earlier one."""
    return sum(len(task) == 2 for task in iterator._task_info.values())


def _tell_queue(publisher: Publisher, iterator: Any, ready: int, waited: int) -> None:
    """What lay ready; of a long wait, also the later batches that did while this one was missing.

    Where some lay ready at its beginning and none was put aside, the batch was there and took long to be unpacked.
    """
    fields = {"ready_batches": ready}
    if waited > LONG_WAIT_NS:
        later = _ready(iterator)
        if later is not None and (ready == 0 or _put_aside(iterator)):
            fields["late_ready"] = later
    publisher.put((QUEUE, fields, monotonic_ns()))
