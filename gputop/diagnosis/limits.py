"""The next limit: what a step cannot get shorter than, whatever holds it back now."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from gputop.diagnosis.candidate import Candidate, speedup
from gputop.diagnosis.evidence import Facts

WITHIN = frozenset(("input", "placement"))
"""Families whose cure moves the loader's own limit."""

CORES = frozenset(("host-contention", "cpu-bound"))
"""Causes whose cure gives the workers cores too."""

EPISODIC = "episodic"
"""The family whose causes stop the loop for a time in which the loader gets ahead: what it needs after that makes them
no less to be named, unless it never rests."""

LITTLE_PCT = 10.0
"""Percent of the time that the loader's workers rest below which it is the limit whatever stops the loop."""

OTHERS = frozenset(("straggler",))
"""Causes whose next limit is what the other ranks take: they are known, and their loaders are their own."""


def loader_busy_pct(facts: Facts) -> float | None:
    """Percent of the time that a loader worker computes, reads or is ready without a core, on average.

    The loader can't make batches faster than this part of a step each: its workers are then never idle.
    """
    machine, loader = facts.machine, facts.loader
    if machine.worker_pct is None or loader is None or not loader.num_workers:
        return None
    waiting = (machine.worker_wait_pct or 0.0) + 100 * (machine.workers_in_disk_wait or 0.0)
    return min(100.0, machine.worker_pct + waiting)


def device_busy_pct(facts: Facts, cured: Collection[str]) -> float:
    """Percent of the time that stays once the idle time in the `cured` roles is gone: the device computes as the driver
    sees it, which counts no copies; it copies; and it idles where that was measured of other roles."""
    loop, lost, util = facts.loop, facts.lost, facts.device.util_pct
    if util is None:
        return 0.0
    if loop is None or lost is None or lost.source != "device":
        return util
    copying = 100 * lost.device_ms.get("h2d", 0.0) / loop.mean_ms
    kept = [part for part in lost.by if part != "h2d" and part not in cured and part not in lost.estimated]
    return min(100.0, util + copying + sum(lost.pct(part) for part in kept))


def bounded(facts: Facts, candidate: Candidate) -> Candidate:
    """The candidate with the gain that the loader, were it the next limit, leaves of its own."""
    if candidate.healthy or candidate.state or candidate.family in WITHIN or candidate.cause in CORES | OTHERS:
        return candidate
    floor = loader_busy_pct(facts)
    if floor is None:
        return candidate
    most = max(0.0, 100 - floor)
    if candidate.share_pct <= most:
        return candidate
    limits = [limit for limit in (candidate.speedup_limit, speedup(candidate.share_pct, floor)) if limit is not None]
    ranked = candidate.gain_pct if candidate.family == EPISODIC and most >= LITTLE_PCT else most
    return msgspec.structs.replace(candidate, gain_pct=ranked, speedup_limit=min(limits, default=None))


def beside_edges(candidate: Candidate, edges_pct: float) -> Candidate:
    """The candidate with its promise for all of the time, where `edges_pct` of that is lost at epochs' beginnings: the
    steady steps, of which shares and promises are, are what is left."""
    limit = candidate.speedup_limit
    if not edges_pct or limit is None or limit <= 1 or candidate.cause == EDGES:
        return candidate
    whole = 1 / (edges_pct / 100 + (1 - edges_pct / 100) / limit)
    return msgspec.structs.replace(candidate, speedup_limit=round(whole, 2))


EDGES = "input-restart"
"""The cause whose lost time is that of epochs' beginnings itself."""
