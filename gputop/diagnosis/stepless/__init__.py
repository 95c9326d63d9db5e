"""A training that tells no steps: what the driver and the processes alone say of it, with less confidence."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gputop.diagnosis.candidate import Candidate
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.stepless.hosting import host, neighbours, small, spill
from gputop.diagnosis.stepless.loading import crowd, loader, storage
from gputop.diagnosis.stepless.seen import NOTICE, Seen, read_seen, readings
from gputop.diagnosis.stepless.working import device_works, on_the_cpu, rests

__all__ = ["FIRM_SAMPLES", "NOTICE", "TRUST", "examine", "looks"]

READINGS = 2
"""Readings that must be known beside the utilization: with fewer, every second cause would fit."""

TRUST = 0.75
"""How far a verdict without steps can be trusted: as host times alone, which are never sure either."""

FIRM_SAMPLES = 10
"""Samples of the driver from which their number no longer lowers the confidence."""

BURST_LOOKS = 0.1
"""What one of the driver's own fine samples counts of a look: it takes some six to ten of them a second."""


def looks(facts: Facts) -> float:
    """How often device and process were looked at; the driver's own samples reach back before the first of them."""
    fine = BURST_LOOKS * sum(len(burst.util_pct) for burst in facts.window.bursts)
    return max(facts.device.samples, len(facts.window.process), fine)


RULES: tuple[Callable[[Facts, Seen], Iterator[Candidate]], ...] = (
    loader, crowd, storage, neighbours, host, small, spill, device_works,
)  # fmt: skip
"""What is asked, in order: of two candidates with the same score, the earlier one wins."""


def examine(facts: Facts) -> list[Candidate]:
    """What may hold back a training of which no step is known, best first; empty where too little is known."""
    if facts.loop is not None or facts.window.alive is not None:
        return []
    if facts.device.on_gpu is False:
        return on_the_cpu(facts)
    util = facts.device.util_pct
    if util is None or readings(facts) < READINGS:
        return []
    seen = read_seen(facts, util)
    resting = rests(facts, seen)
    if resting is not None:
        return [resting]
    found = [candidate for rule in RULES for candidate in rule(facts, seen)]
    return sorted(found, key=lambda candidate: -candidate.score)
