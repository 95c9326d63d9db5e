"""The largest batch that should fit on the device: an estimate from what the present one takes."""

from __future__ import annotations

from typing import NamedTuple

from gputop import figures
from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.input_wait import loader_code
from gputop.diagnosis.numbers import median
from gputop.diagnosis.wording import memory, pct
from gputop.records import Advice

USABLE = 0.9
"""Share of the device's memory that may be planned with: fragments and the libraries' workspaces take the rest."""

WORTH = 1.25
"""The largest batch over the present one from which a larger batch is worth advising."""


class BatchRoom(NamedTuple):
    """`batch`: samples a step now. `fits`: the most that should fit. `sample_bytes`: what one takes, at most."""

    batch: int
    fits: int
    sample_bytes: float
    total_bytes: int

    @property
    def worth_it(self) -> bool:
        """Whether there is room for a clearly larger batch."""
        return self.fits >= WORTH * self.batch

    @property
    def target(self) -> int:
        """The batch to try next: twice the present one, if that should fit."""
        return min(2 * self.batch, self.fits)


@once
def batch_room(facts: Facts) -> BatchRoom | None:
    """The room for a larger batch; None where batch or memory is not known.

    What stays between steps (parameters, gradients, optimizer state) is what tensors hold when a step has ended; what
    comes and goes with the samples is the rest of the allocator's peak. Where only the whole is known, all of it is
    charged to the samples, so that the estimate errs to the small side.
    """
    device, batch = facts.device, _batch(facts)
    total, used = device.mem_total_bytes, device.mem_used_bytes
    if not batch or not total or not used:
        return None
    steps = facts.loop.steps if facts.loop is not None else ()
    held = [step.mem_allocated_bytes for step in steps if step.mem_allocated_bytes]
    peaks = [step.mem_reserved_bytes for step in steps if step.mem_reserved_bytes]
    own = max(peaks, default=max(held, default=device.mem_own_bytes or used))
    stays = min(held) if held and peaks and min(held) < own else 0
    beside = max(0, used - own)
    sample = (own - stays) / batch
    fits = int((USABLE * total - beside - stays) / sample) if sample > 0 else 0
    return BatchRoom(batch, fits, sample, total)


FULL_PCT = 70.0
"""Device memory in use, percent, from which a larger batch is not advised where its size can't be estimated."""


def larger_batch(facts: Facts, why: str) -> list[Advice]:
    """The advice of a larger batch, with the largest that should fit; none where there is no room for one."""
    room, used = batch_room(facts), facts.device.mem_pct
    if room is None:
        full = f"; device memory is {pct(used)} full" if used is not None else ""
        batch = _batch(facts)
        bigger = f"batch_size {batch} → {2 * batch} or more" if batch else "a larger batch"
        return [Advice(do=bigger, why=why + full)] if used is None or used < FULL_PCT else []
    if not room.worth_it:
        return []
    said = f"up to about {figures.count(room.fits)} should fit: a sample takes {memory(room.sample_bytes)} or less"
    return [
        Advice(
            do=f"batch_size {room.batch} → {room.target}; {said}",
            why=f"{why}; an estimate, from device memory {pct(used or 0.0)} full",
            code=loader_code(facts, batch_size=room.target),
        )
    ]


def _batch(facts: Facts) -> int | None:
    """Samples a step takes to the device at once."""
    loader = facts.loader
    if loader is not None and loader.batch_size:
        return loader.batch_size
    steps = facts.loop.steps if facts.loop is not None else ()
    usual = median([float(step.samples) for step in steps if step.samples])
    return round(usual) if usual else None
