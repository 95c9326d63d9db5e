"""What a training script touches: watch, steps, phase, mark. None of it ever raises into the training."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from time import monotonic_ns
from typing import Any, Generic, TypeVar

from gputop.publisher import core
from gputop.publisher.core import Publisher
from gputop.publisher.detail import unusual
from gputop.publisher.device import DeviceClock
from gputop.publisher.entries import BEGIN, END, END_READ
from gputop.publisher.frames import caller_site
from gputop.publisher.oath import confess
from gputop.publisher.passes import Pass
from gputop.publisher.process import switched_off

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


class Watch:
    """What `watch` returns. `stop()` undoes all of it; watching again is allowed."""

    __slots__ = ("_publisher",)

    def __init__(self, publisher: Publisher | None) -> None:
        self._publisher = publisher

    @property
    def run_id(self) -> str | None:
        """The run's name; None before this process is one."""
        return (self._publisher.run_id or None) if self._publisher is not None else None

    def stop(self) -> None:
        """Restore everything that was hooked and end the run."""
        if self._publisher is not None:
            self._publisher.stop()


_watch: Watch | None = None


def watch(
    *objects: Any,
    loader: Any = None,
    model: Any = None,
    optimizer: Any = None,
    device: DeviceClock | None = None,
    no_hooks: Iterable[str] = (),
) -> Watch:
    """Publish what this process trains. Finds loader, model and optimizer by itself; naming them tells it more.

    `objects` may be given in any order. A second call returns the same object and adds what it names. `device` is a
    device clock in place of the one found. `no_hooks` leaves automatic hooks out, by name. GPUTOP=0 makes it a no-op.
    """
    global _watch  # noqa: PLW0603
    try:
        if switched_off():
            return Watch(None)
        publisher = core.publisher(device)
        if _watch is None or _watch._publisher is not publisher:
            _watch = Watch(publisher)
        from gputop.publisher import arm

        arm.arm(publisher, frozenset(no_hooks))
        arm.name(publisher, [*objects, loader, model, optimizer])
        return _watch
    except Exception as error:
        confess("watch", error)
        return Watch(None)


class Steps(Generic[T]):
    """An iterable whose iterations are steps. Has the length of what it wraps; each `iter` is a pass of its own."""

    def __init__(self, iterable: Iterable[T]) -> None:
        self._iterable = iterable
        self._own: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        return Pass(self._iterable)

    def __next__(self) -> T:
        if self._own is None:
            self._own = iter(self)
        return next(self._own)

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._iterable, name)

    def __bool__(self) -> bool:
        return bool(self._iterable)

    def close(self) -> None:
        """End the pass that `next` began."""
        own, self._own = self._own, None
        if isinstance(own, Pass):
            own.close()


def steps(iterable: Iterable[T]) -> Steps[T]:
    """Each iteration over the result is a step of the training; the wait for the next item is its `data`."""
    return Steps(iterable)


class Phase:
    """A part of a step, by name. Reusable, nestable, and a decorator too."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> Phase:
        publisher = core.current
        if publisher is not None and get_ident() == publisher.noting:
            publisher.put((BEGIN, self._name, monotonic_ns()))
        return self

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        publisher = core.current
        if publisher is not None and get_ident() == publisher.noting:
            publisher.put((END, self._name, monotonic_ns()))

    def __call__(self, function: F) -> F:
        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return timed  # type: ignore[return-value]


class RarePhase(Phase):
    """An evaluation or a checkpoint: noted in every step that has one."""

    __slots__ = ()

    def __enter__(self) -> Phase:
        publisher = core.current
        if publisher is not None and publisher.skip and publisher.mine():
            unusual(publisher)
        return super().__enter__()


class ReadPhase(Phase):
    """The phase `sync`: reading device values, told with the script's line."""

    __slots__ = ()

    def __exit__(self, kind: object = None, error: object = None, trace: object = None) -> None:
        publisher = core.current
        if publisher is not None and get_ident() == publisher.noting:
            now = monotonic_ns()
            publisher.put((END_READ, caller_site(), now))


KINDS: dict[str, type[Phase]] = {"sync": ReadPhase, "eval": RarePhase, "checkpoint": RarePhase}
"""Phases that are more than time under a name."""

_phases: dict[str, Phase] = {}
MAX_PHASES = 256
"""Names whose object is kept for the next call: a loop that makes up names must not grow memory."""


def phase(name: str) -> Phase:
    """A part of a step, by name: `with gputop.phase("forward"): ...`, or as a decorator."""
    known = _phases.get(name)
    if known is None:
        known = KINDS.get(name, Phase)(str(name))
        if len(_phases) < MAX_PHASES:
            _phases[name] = known
    return known


def mark(text: str) -> None:
    """Put a marker on the timeline: "lr dropped"."""
    publisher = core.current
    if publisher is None or not publisher.active:
        return
    try:
        publisher.note("marker", monotonic_ns(), 0, str(text)[:200])
    except Exception as error:
        confess("mark", error)
