"""One rank arrives late at the exchange, and all others wait for it."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.numbers import median
from gputop.diagnosis.phases import HOST
from gputop.diagnosis.ranks import Rank, ranks
from gputop.diagnosis.wording import pct, time
from gputop.records import Advice

ID = "straggler"
FAMILY = "distributed"

LATE_PCT = 15.0
"""Percent of the step by which one rank's own time exceeds the median rank's for it to be late."""

ALONE_RATIO = 2.0
"""The latest rank's excess over the next one's from which it is alone: with several late, the cause is common."""

NAMES = {
    "data": "waiting for data",
    "h2d": "copying to the device",
    "forward": "forward",
    "backward": "backward",
    "optimizer": "the update",
    HOST: "its own host work",
}
"""What a rank is late with, in words."""


def examine(facts: Facts) -> Candidate | None:
    """Whether exactly one rank spends much longer on its own than the others."""
    sides, loop = ranks(facts), facts.loop
    if len(sides) < 2 or loop is None:
        return None
    usual = median([side.total for side in sides]) or 0.0
    order = sorted(sides, key=lambda side: -side.total)
    late, following = order[0], order[1]
    if len(sides) == 2:
        usual = following.total
    excess = late.total - usual
    share = 100 * excess / loop.mean_ms
    if share < LATE_PCT / 2:
        return None
    part = max(late.own, key=lambda part: late.own[part] - (median([side.own[part] for side in sides]) or 0.0))
    case = Case(facts)
    case.at_least("time by which one rank is late", share, LATE_PCT, "%", "steps", 2.0)
    if len(sides) > 2:
        alone = excess / max(following.total - usual, 0.02 * loop.mean_ms)
        case.at_least("its delay over the next rank's", alone, ALONE_RATIO, "x", "steps", 2.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=min(100.0, share),
        fit=case.fit,
        headline=f"rank {late.rank} arrives {time(excess)} late in each step of {time(loop.mean_ms)}, with "
        f"{NAMES[part]}: the other {len(sides) - 1} wait for it ({pct(share)} of the step)",
        evidence=case.evidence,
        advice=_advice(late, part),
        speedup_limit=speedup(min(100.0, share)),
        beside=True,
    )


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
    return [
        Advice(
            do=f"compare rank {late.rank}'s GPU (clocks, link, neighbours) and its batches' sizes with the others'",
            why="it does the same work more slowly, or more of it",
        )
    ]
