"""A profile on request: the framework's own profiler over the next steps, begun and ended between two of them.

While a profile is wanted or runs, the training thread's entries pass through here; otherwise nothing does.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

from gputop.publisher.entries import (
    ARRIVE,
    BACKWARD,
    BACKWARD_DONE,
    CONSTRUCT,
    FAIL,
    OPTIMIZER,
    OPTIMIZER_DONE,
    OWN_TIME,
    REQUEST,
    SAVE,
    SAY,
    Entry,
)
from gputop.publisher.hooks.patch import all_of, replace
from gputop.publisher.hooks.waits import Waits
from gputop.publisher.oath import confess
from gputop.publisher.profile_events import seen
from gputop.publisher.profile_sums import Seen, Sums
from gputop.records import Profile

if TYPE_CHECKING:
    from gputop.publisher.core import Publisher

S = 1_000_000_000

MOST_STEPS = 100
"""Steps in one profile."""

MOST_NS = 30 * S
"""How long a profile may take, and how long one may be waited for."""

MOST_BYTES = 512 * 2**20
"""Growth of the process that ends a profile early: a step of very many small operators fills memory."""

ROW = 200
"""Events read between two pauses: some 0.3 ms."""

BREATH_S = 0.0001

Answer = Callable[["str | None"], None]
"""Takes why the profile was not made, or None where it was."""


class Profiling:
    """One profile at a time. `ask` and `look` are the sending thread's; the rest runs on the training thread."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher
        self._lock = threading.Lock()
        self._answer: Answer | None = None
        self._why: str | None = None
        self._over = False
        self._steps = 0
        self._until = 0
        self._thread = 0
        self._reset()

    def _reset(self) -> None:
        self._profiler: Any = None
        self._events: list[Any] = []
        self._undo: Callable[[], None] | None = None
        self._waits: Waits | None = None
        self._done = 0
        self._started = self._ended = 0
        self._grown_from = 0
        self._loader: int | None = None
        self._asked = self._trained = -1
        """The loader asked last, and the one asked last before a backward."""
        self._optimizers: list[int] = []
        self._worked = self._due = False

    # The sending thread

    def ask(self, steps: int | None, answer: Answer) -> None:
        """Profile the next `steps`. `answer` is called once, on this thread: now, or in a later `look`."""
        why = "a profile is being made already" if self._answer is not None else self._refusal()
        if why is not None:
            answer(why)
            return
        self._steps = max(1, min(steps or 1, MOST_STEPS))
        self._why, self._over = None, False
        self._until = time.monotonic_ns() + MOST_NS
        self._thread = self._publisher.thread
        self._answer = answer
        self._reset()
        _end_before_forks()
        self._publisher.put = self._take

    @property
    def wanted(self) -> bool:
        """Whether a profile is being made, or waits for its first step."""
        return self._answer is not None

    def _refusal(self) -> str | None:
        """Why there can be no profile of this process, as far as another thread can tell."""
        if "torch" not in sys.modules:
            return "this training does not use PyTorch"
        if self._publisher.thread != threading.main_thread().ident:
            return "the training does not run in the process's main thread, where the profiler needs it"
        for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"):
            if os.environ.get(name):
                return "another profiler watches this process"
        return None

    def look(self, now: int) -> None:
        """Hand out a profile that is done, or say why there is none."""
        answer = self._answer
        if answer is None:
            return
        if not self._over:
            with self._lock:
                if now < self._until or self._profiler is not None or self._over:
                    return
                self._finish("no training step has begun for 30 s")
        self._answer = None
        try:
            if self._why is None:
                self._publisher.ring.put(self._summary())
        except Exception as error:
            self._why = f"its events could not be read: {type(error).__name__}: {error}"
        finally:
            self._reset()
        answer(self._why)

    def _summary(self) -> Profile:
        publisher = self._publisher
        start, end = publisher.to_epoch(self._started), publisher.to_epoch(self._ended)
        sums = Sums(self._done, start, end, device=self._profiler.use_device is not None)
        row: list[Seen] = []
        for event in seen(self._events):
            row.append(event)
            if len(row) == ROW:
                sums.add(row)
                row.clear()
                time.sleep(BREATH_S)
        sums.add(row)
        waits = self._waits.sites() if self._waits is not None else None
        return Profile(t=start, run_id=publisher.run_id, wait_sites=waits, **sums.fields())

    # The training thread

    def _take(self, entry: Entry) -> None:
        """An entry on its way to the tape."""
        before, after = self._before, self._after
        try:
            before(entry)
        except Exception as error:
            self._stop(f"{type(error).__name__}: {error}")
        self._put(entry)
        try:
            after(entry)
        except Exception as error:
            self._stop(f"{type(error).__name__}: {error}")

    def _put(self, entry: Entry) -> None:
        """To the tape, as if nobody were here."""
        publisher = self._publisher
        if publisher.put == self._take:
            plain = publisher.plain_put()
            plain(entry)
        else:
            publisher.put(entry)

    def _before(self, entry: Entry) -> None:
        op, what, now = entry
        if op in (BACKWARD, OPTIMIZER):
            self._worked = True
            self._trained = self._asked
            if op == OPTIMIZER:
                self._optimizers = [*self._optimizers[:1], what]
        elif op == REQUEST:
            self._due = self._follows(what)
            self._asked = what.loader_id
        elif op in (CONSTRUCT, FAIL):
            self._due = False
        elif op in (SAVE, BACKWARD_DONE) and self._profiler is not None and now > self._until:
            self._stop(None)

    def _follows(self, source: Any) -> bool:
        """Whether a request begins the next training step: where one began before, and a backward has come since."""
        if self._profiler is None:
            return source.loader_id == self._trained or (source.declared and not source.evaluates)
        return source.loader_id == self._loader and (self._worked or source.declared)

    def _after(self, entry: Entry) -> None:
        op, _, now = entry
        if op == ARRIVE and self._due:
            self._due = False
            self._boundary(now)
        elif op == REQUEST and self._due:
            self._loader = self._asked
        elif op == OPTIMIZER_DONE and not self._publisher.requests and len({*self._optimizers}) == 1:
            self._boundary(now)  # a loop that asks no loader steps with the first of its optimizers

    def _boundary(self, now: int) -> None:
        """A training step has begun just now."""
        self._worked = False
        if self._profiler is None:
            self._begin(now)
            return
        self._done += 1
        if self._done >= self._steps or now > self._until or _rss() - self._grown_from > MOST_BYTES:
            self._stop(None)
        self._put((SAY, {"profiled": True}, now))

    def _begin(self, now: int) -> None:
        torch = sys.modules["torch"]
        why = _in_use(torch)
        cuda = torch.cuda.is_initialized()
        if cuda and torch.cuda.is_current_stream_capturing():
            return
        with self._lock:
            if self._over or self._answer is None:
                return
            if why is not None:
                self._finish(why)
                return
            autograd = torch.autograd.profiler
            self._profiler = profiler = autograd.profile(use_kineto=True, **({"use_device": "cuda"} if cuda else {}))
        note, steps = self._publisher.note, self._steps
        note("marker", now, 0, f"profiling {steps} step{'s' if steps > 1 else ''}")
        _running.add(self)
        profiler.__enter__()
        self._undo = all_of([replace(autograd, name, self._giving_way) for name in _SWITCHES])
        if cuda:
            self._watch_waits(torch.cuda)
        self._grown_from = _rss()
        self._started = time.monotonic_ns()
        self._until = self._started + MOST_NS
        self._put((OWN_TIME, now, self._started))
        self._put((SAY, {"profiled": True}, now))

    def _watch_waits(self, cuda: Any) -> None:
        waits = Waits()
        try:
            if waits.begin(cuda):
                self._waits = waits
        except Exception as error:  # the profile is worth having without them
            confess("waits", error)

    def _leave_waits(self) -> None:
        try:
            if self._waits is not None:
                self._waits.end()
        except Exception as error:
            confess("waits", error)

    def _giving_way(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The script turns a profiler on itself: ours is gone before."""

        def switch(*args: Any, **kwargs: Any) -> Any:
            if get_ident() == self._thread:
                self._stop(None if self._done else "the script has begun a profile of its own")
            return original(*args, **kwargs)

        return switch

    def _stop(self, why: str | None) -> None:
        """End the profile, whatever happens, and hand over what it has seen, or why it is none."""
        if self._profiler is None:
            self._finish(why)
        elif not self._ended:
            self._off()
            self._finish(why if why is not None or self._done else "no step was completed")

    def _off(self) -> None:
        """The profiler is off from now on."""
        self._ended = now = time.monotonic_ns()
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()
        _running.discard(self)
        self._leave_waits()
        with suppress(Exception):  # one that never got on can't be turned off
            self._profiler.__exit__(None, None, None)
            self._events = self._profiler.kineto_results.events()
        done = self._done
        label = f"profiled {done} step{'' if done == 1 else 's'}"
        self._publisher.note("marker", self._started or now, now - (self._started or now), label)
        self._put((OWN_TIME, now, time.monotonic_ns()))

    def _finish(self, why: str | None) -> None:
        """Nothing passes through here any more."""
        self._why, self._over = why, True
        if self._publisher.put == self._take:
            self._publisher.put = self._publisher.plain_put()

    def forking(self) -> None:
        """The training thread forks. A child must not go on profiling: the profile ends, or begins anew."""
        if get_ident() != self._thread or self._ended:
            return
        if self._done:
            self._stop(None)
        else:
            self._off()
            self._reset()

    def leave(self) -> None:
        """The run ends: so does a profile, since a process that ends with one crashes."""
        if self._answer is not None and get_ident() == self._thread:
            self._stop("the run has ended")
        else:  # another thread can't end torch's profiler, but what is set for the whole process it can
            self._leave_waits()


_SWITCHES = ("_prepare_profiler", "_enable_profiler")
"""What every use of torch's profiler calls to begin."""

_running: set[Profiling] = set()
_forks_watched = False


def _end_before_forks() -> None:
    global _forks_watched  # noqa: PLW0603
    if not _forks_watched and hasattr(os, "register_at_fork"):
        _forks_watched = True
        os.register_at_fork(before=_before_fork)


def _before_fork() -> None:
    for one in tuple(_running):
        try:
            one.forking()
        except Exception as error:
            confess("profile", error)


def _in_use(torch: Any) -> str | None:
    """Whether the script profiles itself, now or in steps to come: one process can't have two profilers."""
    autograd = torch.autograd.profiler
    tracker = getattr(getattr(autograd, "KinetoStepTracker", None), "_step_dict", {})
    enabled = getattr(torch._C._autograd, "_profiler_enabled", bool)
    if getattr(autograd, "_is_profiler_enabled", False) or enabled() or "ProfilerStep" in tracker:
        return "the script profiles itself"
    return None


def _rss() -> int:
    """Bytes of memory that the process has; 0 where that can't be read."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
