"""What a framework's callback tells the step clock. A call does nothing rather than raise, or count a thing twice."""

from __future__ import annotations

import functools
from collections.abc import Callable
from time import monotonic_ns
from typing import Any, TypeVar

from gputop.publisher import api, core
from gputop.publisher.core import Publisher
from gputop.publisher.detail import unusual
from gputop.publisher.entries import BATCH, BEGIN, CLOSE, END, SAY
from gputop.publisher.hooks.batch import samples_of
from gputop.publisher.oath import confess
from gputop.publisher.segment import Source

F = TypeVar("F", bound=Callable[..., Any])


def quietly(method: F) -> F:
    """A callback's method whose own errors end with it."""

    @functools.wraps(method)
    def safe(*args: Any, **kwargs: Any) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:
            confess(f"callback {method.__name__}", error)

    return safe  # type: ignore[return-value]


class Telling:
    """One training by a framework. Holds no publisher, so that a callback can be copied and pickled."""

    def __init__(self) -> None:
        self._requests = -1
        self._hooked: bool | None = None
        """Whether the automatic hooks see this training's batches; None before its first one."""
        self._source: Source | None = None
        self._epoch: int | None = None
        self._free = 0
        self._open: list[str] = []

    def begin(self, *objects: Any, ranks: tuple[int, int, int] | None = None, **fields: Any) -> None:
        """A training begins: of this model, with these optimizers and loaders. `ranks`: global, local, how many."""
        api.watch(*objects)
        publisher = here()
        if publisher is None:
            return
        self._requests, self._hooked, self._source, self._epoch = publisher.requests, None, None, None
        self._open.clear()
        self._free = monotonic_ns()
        if ranks is not None and ranks[2] > 1:
            fields.update(rank=ranks[0], local_rank=ranks[1], world_size=ranks[2])
        if fields:
            publisher.learn(**fields)

    def batch(
        self, epoch: int | None = None, batch: Any = None, *, updates: bool | None = None, waited: bool = True
    ) -> None:
        """A training batch is here: a step begins, unless the hooks have seen its loader being asked.

        Then, what no mark covers since the last batch was done with is the wait for this one, if it was `waited` for
        and is not to be asked for only later. `updates`: whether the optimizer steps in it, where no hook would tell.
        """
        publisher = core.current
        if publisher is None or not publisher.trains():
            return
        now = monotonic_ns()
        if self._hooked is None:
            self._hooked = publisher.requests != self._requests
        if not self._hooked:
            if self._source is None or (epoch is not None and epoch != self._epoch):
                if self._source is not None:
                    publisher.put((CLOSE, self._source, now))
                self._source = Source(None, epoch, declared=True)
            publisher.put((BATCH, (self._source, self._free if waited else None, samples_of(batch), updates), now))
        elif epoch is not None and epoch != self._epoch:
            publisher.put((SAY, {"epoch": epoch}, now))
        self._epoch = epoch

    def done(self) -> None:
        """The batch is done with: the framework turns to the next."""
        self._free = monotonic_ns()

    def enter(self, name: str, hook: str | None = None) -> None:
        """A part of the step begins; left to the automatic hook of that name where it is installed."""
        publisher = _mine()
        if publisher is None or hook in publisher.hooks or (publisher.skip and name != "eval"):
            return
        unusual(publisher)
        self._open.append(name)
        publisher.put((BEGIN, name, monotonic_ns()))

    def leave(self, name: str) -> None:
        """It ends; nothing where it is not open."""
        publisher = _mine()
        if publisher is None or name not in self._open:
            return
        self._open.remove(name)
        if publisher.skip:
            return
        publisher.put((END, name, monotonic_ns()))

    def inside(self, name: str) -> bool:
        """Whether that part is open."""
        return name in self._open

    def rest(self, *, error: BaseException | None = None) -> None:
        """The training is over, by an error or as it should: what follows in this process is no part of a step."""
        publisher = _mine()
        if publisher is None:
            return
        self._open.clear()
        if error is not None:
            publisher.note("error", monotonic_ns(), 0, type(error).__name__)
        publisher.rest(cut_short=error is not None)


def here() -> Publisher | None:
    """The publisher that watches this thread, or will where no other has trained yet."""
    publisher = core.current
    return publisher if publisher is not None and (publisher.mine() or not publisher.started) else None


def _mine() -> Publisher | None:
    """The publisher that watches this thread, if any."""
    publisher = core.current
    return publisher if publisher is not None and publisher.mine() else None
