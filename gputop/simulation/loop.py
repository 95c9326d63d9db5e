"""The training loop: one, whatever the scenario and whichever clock; what it reports goes through a tap."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol

from gputop.simulation.rig import Rig


class Tap(Protocol):
    """What the loop reports to: gputop's public `steps` and `phase`, or a writer of records under a virtual clock."""

    def steps(self, loader: Any) -> Iterable[Any]:
        """The loader's batches; the time inside each request is `data`."""

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """The time inside is this phase's."""

    def reads(self, count: int) -> AbstractContextManager[Any]:
        """Inside, so many device values are read back: the time is `sync`."""

    def copied(self, nbytes: int, pageable: int) -> None:
        """So many bytes went to the device, `pageable` of them from memory that is not pinned."""


def train(rig: Rig, tap: Tap) -> Iterator[int]:
    """Train without end, epoch after epoch; yields the number of steps done after each."""
    host, plan = rig.physics.host, rig.physics.episodes
    step = 0
    while True:
        for _ in tap.steps(rig.loader):
            with tap.phase("h2d"):
                tap.copied(*rig.to_device())
            with tap.phase("forward"):
                rig.forward()
            with tap.phase("backward"):
                rig.backward()
            if rig.exchange is not None:
                with tap.phase("comm"):
                    rig.sum_gradients()
            with tap.phase("optimizer"):
                rig.update()
            if host.reads:
                with tap.reads(host.reads):
                    rig.read_back()
            step += 1
            if step % host.work_every == 0:
                rig.work(host.work_ns)
            rig.work_alone()
            if plan.validate_every and step % plan.validate_every == 0:
                validate(rig, tap)
            if plan.save_every and plan.save_rank in (None, rig.rank) and step % plan.save_every == 0:
                with tap.phase("checkpoint"):
                    rig.save()
            yield step


def validate(rig: Rig, tap: Tap) -> None:
    """One pass over the validation set: forward alone, its own loader."""
    for _ in tap.steps(rig.validation):
        with tap.phase("forward"):
            rig.evaluate()
