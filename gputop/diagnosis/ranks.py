"""The ranks of one job side by side: what each does before the collective that makes them wait for each other."""

from __future__ import annotations

from operator import add

import msgspec

from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.loop import train_and_eval
from gputop.diagnosis.numbers import median
from gputop.diagnosis.phases import HOST, role
from gputop.records import Run, Step
from gputop.window import Peer

OWN = ("data", "h2d", "forward", HOST)
"""What a rank does by itself. Backward is left out: the exchange inside it makes it equally long on every rank."""

MARKED = (*OWN, "backward", "optimizer")
"""The same where every rank marks the exchange, so that backward and the update are free of it."""

LATEST = 50
"""Steps of each rank that are compared."""


class Rank(msgspec.Struct, frozen=True):
    """A rank's usual times of its own, in ms per step by role."""

    rank: int
    own: dict[str, float]

    @property
    def total(self) -> float:
        """All of it together."""
        return sum(self.own.values())


@once
def ranks(facts: Facts) -> list[Rank]:
    """The ranks of the run's job that have steps in the window, in order; empty for a job of one."""
    window = facts.window
    if not window.peers or facts.loop is None:
        return []
    sides = [(window.run, window.steps), *((peer.run, peer.steps) for peer in window.peers)]
    parts = MARKED if all(any("comm" in step.phases_ns for step in steps[-5:]) for _, steps in sides) else OWN
    mine = _rank(window.run, window.steps[-LATEST:], parts)
    found = [rank for rank in (mine, *(_peer_rank(peer, parts) for peer in window.peers)) if rank is not None]
    return sorted(found, key=lambda rank: rank.rank) if len(found) > 1 else []


def _peer_rank(peer: Peer, parts: tuple[str, ...]) -> Rank | None:
    """A peer's own figures, worked out once for all windows that show it."""
    name = f"rank by {' '.join(parts)}"
    if name not in peer.seen:
        peer.seen[name] = _rank(peer.run, peer.steps[-LATEST:], parts)
    found: Rank | None = peer.seen[name]
    return found


def _rank(run: Run, steps: tuple[Step, ...], parts: tuple[str, ...]) -> Rank | None:
    train, _ = train_and_eval(steps)
    if run.rank is None or len(train) < 5:
        return None
    names = {phase: role(phase) for phase in {phase for step in train for phase in step.phases_ns}}
    own: dict[str, list[int]] = {part: [0] * len(train) for part in parts}
    for name, of in names.items():
        if of in own:
            own[of] = list(map(add, own[of], [step.phases_ns.get(name, 0) for step in train]))
    rest = [max(0, step.dur_ns - sum(step.phases_ns.values())) for step in train]
    own[HOST] = list(map(add, own[HOST], rest))
    return Rank(run.rank, {part: (median(column) or 0.0) / 1e6 for part, column in own.items()})
