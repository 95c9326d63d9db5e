"""The wait for data, as far as it holds the run back, and what every cause of one asks of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import msgspec

from gputop.diagnosis import sampled
from gputop.diagnosis.candidate import speedup
from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.loop import Shape, shape
from gputop.diagnosis.machine import Machine
from gputop.diagnosis.numbers import ranked
from gputop.diagnosis.wording import cost, time
from gputop.records import Step

ENTER_PCT = 10.0
"""Percent of the step lost to waiting for data from which it is worth naming (published rules warn at 5 to 20)."""

NOTICE_PCT = 5.0
"""Percent from which it is examined at all: the verdict in force may hold below the threshold of entering."""

HANDOVER_MS = 1.5
"""What taking a ready batch from worker processes costs at most, in ms (measured 1.0 to 1.4 with two workers).

It is no wait for the workers; but in steps of a few ms a wait as short as that may be one, so half of it is kept.
"""

TAKING_MS = 1.0
"""What it costs at least, ms: a loader that gets workers pays it, on the training thread and in the worker."""

FREE_SHARE = 0.25
"""Share of the usable cores that the run itself must leave for more workers to find room."""

WAITING_SHARE = 0.7
"""Share of the fetch that the training thread spends off the CPU from which fetching waits rather than computes."""

BUSY_WORKER_PCT = 85.0
"""CPU of one worker (one core = 100) from which it computes all the time instead of waiting for something."""

IDLE_WORKER_PCT = 50.0
"""CPU of one worker below which it mostly waits."""

CHEAPER = "decode once and cache, decode to the size needed"
"""How a sample is made with less work."""


APART_SHARE = 0.95
"""Share of a step without the wait from which evaluations and checkpoints in it are not worth a word."""


class InputWait(msgspec.Struct, frozen=True, kw_only=True):
    """Time lost to waiting for data. `needed`: workers that would keep up; `workers` None: not known.

    `room_share` is the share of the usable cores that this run itself leaves, whoever else may use them for the moment:
    a scheduler gives a new worker its part. `waiting`: fetching a batch waits for something and needs no core.
    `batch_ms` is the worker time that one batch takes (with no workers: the fetch itself). `ready_share`: share of the
    waiting steps in which batches lay ready; `late_share`: in which later batches were ready and this one was not.
    """

    on_gpu: bool
    lost_pct: float
    wait_ms: float
    step_ms: float
    left_ms: float
    """What the wait, evaluations and checkpoints leave of a step."""
    shape: Shape
    workers: int | None
    batch_ms: float | None
    needed: int | None
    ready_share: float | None
    late_share: float | None
    free_share: float | None
    room_share: float | None
    waiting: bool | None

    @property
    def without(self) -> str:
        """What `left_ms` is without, in words."""
        apart = self.left_ms < APART_SHARE * (self.step_ms - self.wait_ms)
        return "without the wait, validation and checkpoints" if apart else "without the wait"


@once
def input_wait(facts: Facts) -> InputWait | None:
    """The wait for data; None where it is not worth a look."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None:
        return None
    form = shape(loop, "data")
    workers = facts.loader.num_workers if facts.loader else None
    if workers is None:
        workers = facts.machine.workers
    share = lost.pct("data")
    if lost.source != "device" and workers:
        share -= min(100 * min(HANDOVER_MS, form.p10_ms) / loop.mean_ms, share / 2)
    if share < NOTICE_PCT:
        return None
    wait = loop.ms("data")
    batch = None if workers is None else wait if workers == 0 else workers * loop.mean_ms
    left = loop.mean_ms - loop.ms("eval") - loop.ms("checkpoint") - wait
    return InputWait(
        on_gpu=facts.device.on_gpu is not False,
        lost_pct=share,
        wait_ms=wait,
        step_ms=loop.mean_ms,
        left_ms=max(0.0, left),
        shape=form,
        workers=workers,
        batch_ms=None if sampled.how(facts) == sampled.STRETCH else batch,
        needed=_needed(batch, left, loop.mean_ms),
        ready_share=_share_of_waits(facts, form, late=False),
        late_share=_share_of_waits(facts, form, late=True),
        free_share=free_share(facts),
        room_share=room_share(facts, workers),
        waiting=_waiting(facts, workers, wait),
    )


def free_share(facts: Facts) -> float | None:
    """Share of the cores that the run may use which nobody uses."""
    machine = facts.machine
    return machine.free_cores / machine.cores if machine.free_cores is not None and machine.cores else None


def room_share(facts: Facts, workers: int | None) -> float | None:
    """Share of the cores that the run may use which its own processes leave.

    A worker that is ready and has no core wants one as much as one that runs: it leaves no room for another.
    """
    machine = facts.machine
    if not machine.cores:
        return None
    if workers == 0:
        return (machine.cores - 1) / machine.cores
    own = None if machine.own_pct is None else machine.own_pct / 100
    if own is None and workers and machine.worker_pct is not None:
        own = workers * machine.worker_pct / 100
    if own is None:
        if machine.cpu_pct is None or machine.cores_all is None or machine.workers is not None:
            return None  # where the workers are seen, and not timed yet, the next look will tell
        busy = machine.cores_all * machine.cpu_pct / 100
        own = busy if workers is None else min(busy, workers + 1.0)
    elif workers:
        own += workers * (machine.worker_wait_pct or 0.0) / 100
    return max(0.0, machine.cores - own) / machine.cores


def _waiting(facts: Facts, workers: int | None, wait_ms: float) -> bool | None:
    """Whether fetching waits (for a disk, a network, a lock) rather than computes; None where nothing tells."""
    machine, loop = facts.machine, facts.loop
    if workers:
        if machine.worker_pct is not None and machine.worker_wait_pct is not None:
            return machine.worker_pct + machine.worker_wait_pct < IDLE_WORKER_PCT
        left = [share for share in (free_share(facts), room_share(facts, workers)) if share is not None]
        if left and min(left) < FREE_SHARE:
            return None
        at_most = _worker_at_most(machine, workers)
        if at_most is None or at_most < IDLE_WORKER_PCT:
            return None if at_most is None else True
        return None if machine.worker_pct is None else False
    if workers is None or loop is None:
        return None
    off = [step.dur_ns - step.host_cpu_ns for step in loop.steps if step.host_cpu_ns is not None]
    if not off:
        return None
    queued = (machine.main_wait_pct or 0.0) / 100 * loop.mean_ms
    return sum(off) / len(off) / 1e6 - loop.ms("sync") - queued >= WAITING_SHARE * wait_ms


def _worker_at_most(machine: Machine, workers: int) -> float | None:
    """CPU of each worker, percent; where the workers are not seen, what it is at most with all that is used."""
    if machine.worker_pct is not None:
        return machine.worker_pct
    if machine.cpu_pct is None or machine.cores_all is None:
        return None
    return machine.cpu_pct * machine.cores_all / workers


MOST_WORKERS = 999
"""A wait that leaves almost nothing of the step would ask for absurdly many workers: more than this is no advice."""


def _needed(batch_ms: float | None, left_ms: float, step_ms: float) -> int | None:
    """Workers that keep up: worker time per batch over the step's time without the wait, rounded up."""
    if batch_ms is None or left_ms <= 0.001 * step_ms:
        return None
    needed = ceil(batch_ms / left_ms - 1e-9)
    return needed if needed <= MOST_WORKERS else None


def _share_of_waits(facts: Facts, form: Shape, *, late: bool) -> float | None:
    """Of the steps that really waited, the share in which batches lay ready (`late`: later ones than the awaited)."""
    loop = facts.loop
    column = loop.roles.get("data") if loop else None
    if loop is None or column is None:
        return None
    told = [step.late_ready for step in loop.steps] if late else []
    told += [step.ready_batches for step in loop.steps]
    if told.count(None) == len(told):
        return None
    bar = max(HANDOVER_MS, 0.5 * form.median_ms if form.steady else 3 * form.median_ms)
    handover = _handover_ms(loop.steps, column) if late else None
    flags = []
    for step, wait in zip(loop.steps, column, strict=True):
        ready = step.late_ready if late else step.ready_batches
        if ready is None and handover is not None and step.ready_batches and wait > HELD_UP * handover:
            ready = step.ready_batches
        if wait > bar and ready is not None:
            flags.append(ready > 0)
    return sum(flags) / len(flags) if flags else None


HELD_UP = 10.0
"""A wait with batches ready over the usual such one from which the awaited batch was not one of them."""


def _handover_ms(steps: Sequence[Step], waits: Sequence[float]) -> float | None:
    """What taking a batch that lies ready usually takes, HANDOVER_MS at least; None where none ever lay ready."""
    ready = [wait for step, wait in zip(steps, waits, strict=True) if step.ready_batches]
    return max(HANDOVER_MS, ranked(sorted(ready), 0.5)) if ready else None


LITTLE_ROOM = 1.0
"""Cores that this run leaves below which another worker would not find one of its own."""

HALF = 0.5
"""Part of the possible gain that more workers must win for their number, and not the cores, to be what is short."""

SMALL_GAIN = 1.3
"""Speed-up by more workers (step time now over then) below which cheaper batches are the first thing to do."""


def cores_short(facts: Facts, wait: InputWait) -> bool:
    """Whether the workers there is still room for would win less than half of what the wait costs: where another one
    would not find a core of its own, and also where it would, if they win hardly anything."""
    cores = facts.machine.cores
    if wait.workers is None or wait.waiting or wait.room_share is None or wait.batch_ms is None or not cores:
        return False
    most, whole = speedup(wait.lost_pct, most_pct(facts, wait, cores)), speedup(wait.lost_pct)
    if most is None or whole is None or most - 1 >= HALF * (whole - 1):
        return False
    return wait.room_share * cores < LITTLE_ROOM or most < SMALL_GAIN


def most_pct(facts: Facts, wait: InputWait, cores: float) -> float:
    """Percent of the step below which workers that compute can't bring it: what all usable cores together can fetch.

    What they wait for besides a core needs none. A training thread that fetched by itself has batches to take from then
    on, and the workers batches to give.
    """
    if wait.batch_ms is None or wait.workers is None or wait.room_share is None:
        return 0.0
    busy, machine = 1.0, facts.machine
    if wait.workers and machine.worker_pct is not None and machine.worker_wait_pct is not None:
        busy = min(1.0, (machine.worker_pct + machine.worker_wait_pct) / 100)
    needs = busy * wait.batch_ms + taking_ms(wait)
    fetching = 100 * needs / max(1.0, busy * wait.workers + wait.room_share * cores) / wait.step_ms
    return min(100.0, max(fetching, computing_pct(facts, wait, cores)))


def computing_pct(facts: Facts, wait: InputWait, cores: float) -> float:
    """Percent of the step that all the CPU time of the run takes, shared out among the usable cores: workers take
    nothing of it away. On a GPU a thread may also spin while it waits for that, so nothing is said."""
    own = facts.machine.own_pct
    if own is None or facts.lost is None or facts.lost.source != "cpu":
        return 0.0
    return (own + 200 * taking_ms(wait) / wait.step_ms) / cores


def taking_ms(wait: InputWait) -> float:
    """What each batch costs more once workers make it, on either side; nothing where they do already."""
    return TAKING_MS if wait.workers == 0 else 0.0


def waits(wait: InputWait) -> str:
    """The wait in words: its part of the step, what it costs, and its beat where it has one."""
    text = f"data wait takes {cost(wait.wait_ms, wait.step_ms, wait.lost_pct, on_gpu=wait.on_gpu)}"
    form = wait.shape
    if not form.steady and form.period and form.period > 1:
        text += f", {time(form.long_ms)} every {form.period} steps"
    return text


def loader_code(facts: Facts, **changes: object) -> str:
    """The loader's call with `changes`: batch and workers as they are, without which many options mean nothing."""
    loader = facts.loader
    shown: dict[str, object] = {}
    if loader is not None and loader.batch_size is not None:
        shown["batch_size"] = loader.batch_size
    if loader is not None and loader.num_workers:
        shown["num_workers"] = loader.num_workers
    shown |= changes
    return "DataLoader(dataset, " + ", ".join(f"{name}={value!r}" for name, value in shown.items()) + ")"
