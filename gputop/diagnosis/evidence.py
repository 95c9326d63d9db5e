"""From a window to facts: everything that the causes are judged by, computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import msgspec

from gputop.diagnosis.arrivals import Arrival, arrivals
from gputop.diagnosis.crowd import Came
from gputop.diagnosis.crowd import came as others_came
from gputop.diagnosis.device import Device, read_device, with_only_gpu
from gputop.diagnosis.loop import Bucket, Loop, ledger, read_loop
from gputop.diagnosis.lost import Lost, read_lost
from gputop.diagnosis.machine import Machine, read_machine, training_loader
from gputop.diagnosis.shift import as_seen, since_change
from gputop.pids import Pid
from gputop.records import Loader
from gputop.window import Window


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a run over a window. `loop` and `lost` are None while no training step has finished in it.

    `ledger` are the buckets of wall time of the steady steps, in percent (summing to 100) and mean ms per step.
    `came` are the neighbours on the run's device that came while the run was watched, `crowd` those on its cores.
    `last`: the steps are those of whichever rank of the job came last to the exchange (see `critical`).
    `seen` keeps what causes have read out of the facts in common (see `once`).
    """

    window: Window
    window_s: float
    device: Device
    machine: Machine
    loop: Loop | None = None
    lost: Lost | None = None
    loader: Loader | None = None
    ledger: tuple[Bucket, ...] = ()
    came: dict[Pid, Arrival] = {}
    last: bool = False
    crowd: Came | None = None
    seen: dict[str, Any] = {}


T = TypeVar("T")


def once(read: Callable[[Facts], T]) -> Callable[[Facts], T]:
    """A reading of facts that several causes ask for, made only once and kept in `facts.seen`."""
    name = f"{read.__module__}.{read.__qualname__}"

    @wraps(read)
    def kept(facts: Facts) -> T:
        if name not in facts.seen:
            facts.seen[name] = read(facts)
        found: T = facts.seen[name]
        return found

    return kept


def gather(window: Window, *, accidents: bool = False) -> Facts:
    """The facts of a window. `accidents`: single steps that dwarf all others have been seen before, so they count.

    Where the run has changed for good within the window, the facts are those since.
    """
    window = with_only_gpu(window)
    loop = read_loop(window, accidents=accidents)
    device = read_device(window)
    came = {} if loop is None or not device.neighbours else arrivals(window, loop, device)
    crowd = None if loop is None else others_came(window, loop)
    changed = since_change(window, loop) if loop is not None else None
    if changed is not None and loop is not None:
        newer = read_loop(changed, accidents=accidents)
        if newer is not None:
            window, loop, device = changed, as_seen(newer, loop), read_device(changed)
    loader = _loader(window, loop)
    return Facts(
        window=window,
        window_s=max(0.0, (window.to_ns - window.from_ns) / 1e9),
        device=device,
        machine=read_machine(window, loader),
        loop=loop,
        lost=None if loop is None else read_lost(loop, device),
        loader=loader,
        ledger=() if loop is None else ledger(loop, window.run.detail_every or 1),
        came=came,
        crowd=crowd,
    )


def _loader(window: Window, loop: Loop | None) -> Loader | None:
    ids = [step.loader_id for step in loop.steps] if loop else []
    if ids and ids.count(ids[0]) == len(ids):
        ids = ids[:1]
    return training_loader(window, Counter(one for one in ids if one is not None))


def batches_unseen(facts: Facts) -> bool:
    """Whether no loader was seen and nothing else tells how batches come, so that making them counts as forward."""
    loop = facts.loop
    if loop is None or facts.loader is not None or loop.roles.get("data") or not loop.phases.get("forward"):
        return False
    return all(step.loader_id is None and step.had_backward for step in loop.steps)
