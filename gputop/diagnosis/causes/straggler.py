"""One rank arrives late at the exchange, and all others wait for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.numbers import median
from gputop.diagnosis.phases import COMPUTE, HOST
from gputop.diagnosis.ranks import FREE, Rank, Ranks, ranks, usual_of
from gputop.diagnosis.waiting import kept, lateness, waited_for
from gputop.diagnosis.wording import pct, time
from gputop.records import Advice

ID = "straggler"
FAMILY = "distributed"

LATE_PCT = 10.0
"""Percent of the step by which one rank comes later than any other for it to be late (published rules: 10 to 30)."""

ALONE_RATIO = 2.0
"""The latest rank's excess over the next one's from which it is alone: with several late, the cause is common."""

SAME_RANK = 0.75
"""Share of the waiting, step by step, that must be for the same rank: where they take turns, they are all slow."""

READY = 0.75
"""Batches that lie ready when a rank asks for one, of the most that do, from which its loader keeps up."""

NAMES = {
    "data": "waiting for data",
    "h2d": "copying to the device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "the update",
    HOST: "its own host work",
    "eval": "validating",
    "checkpoint": "saving",
}
"""What a rank is late with, in words."""


class Late(NamedTuple):
    """The rank that comes last, what it is late with, by how much (ms a step of `step_ms`), its delay over the next
    one's, and the share of all waiting that is for it (None: not known)."""

    rank: Rank
    part: str
    excess_ms: float
    step_ms: float
    alone: float
    turn: float | None

    @property
    def share_pct(self) -> float:
        """Percent of the step that its lateness takes."""
        return min(100.0, 100 * self.excess_ms / self.step_ms)


def examine(facts: Facts) -> Candidate | None:
    """Whether exactly one rank spends much longer on its own than the others."""
    sides = ranks(facts)
    if len(sides) < 2 or facts.loop is None:
        return None
    found = kept(sides, "latest", latest)
    late, part, share = found.rank, found.part, found.share_pct
    if share < LATE_PCT / 2:
        return None
    case = Case(facts)
    case.at_least("time by which one rank is late", share, LATE_PCT, "%", "steps", 2.0)
    if len(sides) > 2:
        case.at_least("its delay over the next rank's", found.alone, ALONE_RATIO, "x", "steps", 2.0)
    turn = found.turn
    if (turn is not None and turn < SAME_RANK) or (part == "data" and _all_starve(sides, late)):
        return None
    case.at_least("of the ranks' waiting, for this one", turn, SAME_RANK, "", "steps")
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"rank {late.rank} arrives {time(found.excess_ms)} late in each step of {time(found.step_ms)}, with "
        f"{NAMES[part]}: {'the other waits' if len(sides) == 2 else f'the other {len(sides) - 1} wait'} for it "
        f"({pct(share)} of the step)",
        evidence=case.evidence,
        advice=_advice(late, part),
        speedup_limit=speedup(share),
        beside=True,
    )


def latest(sides: Ranks) -> Late:
    """The rank that comes last; of two at least."""
    usual = median([side.total for side in sides]) or 0.0
    order = sorted(sides, key=lambda side: -side.total)
    late = order[0]
    if all(side.exchange is not None for side in sides):
        late = min(sides, key=lambda side: side.exchange or 0.0)
    following = next(side for side in order if side is not late)
    if len(sides) == 2:
        usual = following.total
    part = max(late.own, key=lambda part: late.own[part] - usual_of(sides, part))
    excess, step_ms = late.total - usual, late.step_ms
    by_step = lateness(sides, late)
    if by_step is not None:
        as_long = max(_with_masked(side, late) for side in sides if side is not late)
        step_ms = by_step.step_ms
        excess = min(by_step.ms - (as_long - following.total), step_ms - _launching(late))
        excess = min(excess, step_ms * (1 - _loading(sides, late, part)), step_ms - _handing_over(sides))
    return Late(late, part, excess, step_ms, _alone(sides, late), waited_for(sides, late))


def _alone(sides: Sequence[Rank], late: Rank) -> float:
    """How much later than the usual rank this one is, over how much later the next one is.

    By what they wait, where that is known, else by what they do of their own.
    """
    known = all(side.exchange is not None for side in sides)
    times = [-(side.exchange or 0.0) if known else side.total for side in sides]
    usual, mine = median(times) or 0.0, -(late.exchange or 0.0) if known else late.total
    following = max(time for side, time in zip(sides, times, strict=True) if side is not late)
    return (mine - usual) / max(following - usual, 0.02 * late.step_ms)


def _with_masked(side: Rank, late: Rank) -> float:
    """What a rank would take by itself, ms: with what its host does while its device waits for the late rank.

    Were that one quicker, the others' devices would have to wait for their hosts.
    """
    masked = [max(0.0, min(side.host[part], late.own[part]) - side.own[part]) for part in FREE]
    return side.total + sum(masked)


def _handing_over(sides: Sequence[Rank]) -> float:
    """What the slowest host takes to be handed a batch that lies ready, ms: no step is shorter, whatever devices do."""
    return max((side.host.get("data", 0.0) for side in sides if (side.ready or 0.0) >= READY), default=0.0)


def _launching(late: Rank) -> float:
    """What the late rank's host takes to launch a step's work, ms, where it is not known to wait for room meanwhile.

    The others' take as long, and have the time.
    """
    return sum(late.host.get(part, 0.0) for part in COMPUTE) if late.starved else 0.0


def _loading(sides: Sequence[Rank], late: Rank, part: str) -> float:
    """The part of a step that the busiest loader takes anyway, whose workers have to make a batch for each: the next
    limit. The late rank's own counts where it is late with something else."""
    return max((side.busy or 0.0 for side in sides if side is not late or part != "data"), default=0.0)


def _all_starve(sides: Sequence[Rank], late: Rank) -> bool:
    """Whether the others' loaders don't keep up either, or the late rank's own does, and something else delays it.

    Where their workers are seen, those say how far they could keep up.
    """
    if all(side.busy is not None for side in sides):
        return False
    others = median([side.ready for side in sides if side is not late and side.ready is not None])
    return (others is not None and others < READY) or (late.ready is not None and late.ready >= READY)


def _advice(late: Rank, part: str) -> list[Advice]:
    if part == "data":
        return [
            Advice(do=f"look at rank {late.rank}'s loader and shard: disk, samples' sizes, cores", why="it alone waits")
        ]
    if part == HOST:
        return [
            Advice(
                do=f"spread or drop what only rank {late.rank} does (logging, metrics, saving)",
                why="every rank waits while one works",
            )
        ]
    if part == "checkpoint":
        return [
            Advice(
                do=f"have rank {late.rank} save in the background or less often, or every rank its own part",
                why="every rank waits while one writes",
            )
        ]
    return [
        Advice(
            do=f"compare rank {late.rank}'s GPU (clocks, link, neighbours) and its batches' sizes with the others'",
            why="it does the same work more slowly, or more of it",
        )
    ]
