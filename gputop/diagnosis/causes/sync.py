"""Reading device values back drains the queue, and the device idles until the host has launched new work."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.launching import Launching, launching
from gputop.diagnosis.wording import count, pct, time
from gputop.records import Advice

ID = "sync"
FAMILY = "host"

ENTER_PCT = 10.0
"""Percent of the step that would go without the reads from which they are worth naming (a published rule takes 10)."""

NOTICE_PCT = 5.0
"""Percent from which they are examined at all."""

WAITING_SHARE = 10.0
"""Percent of the step that the host waits in reads from which it is they that it waits for."""

BUSY_THREAD_PCT = 95.0
"""CPU of the training thread (one core = 100) from which it computes rather than waits in the reads (it may spin)."""

SUM_ON_DEVICE = (
    "total = torch.zeros((), device=device)  # before the loop\n"
    "total += loss.detach()\nif step % 50 == 0:\n    log(total.item() / 50)\n    total.zero_()"
)
"""How a value is followed without being read at every step."""


def examine(facts: Facts) -> Candidate | None:
    """Whether reads cost device time. A read on a busy device costs nothing: then no device time is lost after it.

    Without a read, host and device overlap: the step can't get shorter than either. So a read costs at most the host's
    wait in it, and at most the device's idle time where work is launched.
    """
    idle = launching(facts)
    loop, lost = facts.loop, facts.lost
    if idle is None or loop is None or lost is None or idle.sync_pct < NOTICE_PCT:
        return None
    case = Case(facts)
    waited = None if idle.sync_ms is None else 100 * idle.sync_ms / loop.mean_ms
    case.at_least(
        "step time that reads of device values could cost at most", idle.sync_pct, ENTER_PCT, "%", lost.source
    )
    case.at_least("host time in reads", waited, WAITING_SHARE, "%", "steps")
    if waited is None:
        case.missing(1.0)
    case.at_least("reads per step", idle.syncs, 1, "", "steps")
    if lost.source == "device":
        bubbles = idle.forward_pct + idle.optimizer_pct + lost.pct("sync")
        case.at_least("device idle where work is launched or read back", bubbles, ENTER_PCT, "%", "device")
    else:
        case.missing(1.5)
        case.at_most("GPU utilization", facts.device.util_pct, 100 - ENTER_PCT, "%", "driver", 0.5)
    sites = _sites(facts)
    if sites:
        case.weigh("costliest read", sites[0][0], True, None, sites[0][3], 0.5)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=idle.sync_pct,
        fit=case.fit,
        headline=_headline(facts, idle, sites),
        evidence=case.evidence,
        advice=_advice(facts, sites),
        speedup_limit=speedup(idle.sync_pct),
        estimated=idle.estimated,
        upper=idle.upper,
    )


def _sites(facts: Facts) -> list[tuple[str, str, float, str]]:
    """Reads by line: (site, call, ms per step, source), the costliest first."""
    loop = facts.loop
    cost: dict[tuple[str, str, str], float] = {}
    for step in loop.steps if loop else ():
        for site in step.sync_sites or ():
            key = (site.site, site.call, site.source or "patched")
            cost[key] = cost.get(key, 0.0) + site.ns / 1e6
    ordered = sorted(cost.items(), key=lambda item: -item[1])
    return [(site, call, ms / (loop.n if loop else 1), source) for (site, call, source), ms in ordered]


def _headline(facts: Facts, idle: Launching, sites: list[tuple[str, str, float, str]]) -> str:
    loop = facts.loop
    assert loop is not None
    number = count(idle.syncs, "read") + " of device values" if idle.syncs else "reads of device values"
    where = f", most of it at {sites[0][0]} ({sites[0][1]})" if sites else ""
    waits = "" if idle.sync_ms is None else f"the host waits {time(idle.sync_ms)} in them and "
    return (
        f"{number} per step drain the queue: {waits}the device idles after; "
        f"without them at most {pct(idle.sync_pct)} of a {time(loop.mean_ms)} step would go{where}"
    )


def _advice(facts: Facts, sites: list[tuple[str, str, float, str]]) -> list[Advice]:
    loop = facts.loop
    place = f"{sites[0][0]}: {sites[0][1]}" if sites else "values such as loss.item()"
    advice = [
        Advice(
            do=f"don't read {place} every step: sum on the device, read when it is logged",
            why="each read waits until the device has done everything queued so far",
            code=SUM_ON_DEVICE,
        )
    ]
    if loop is not None and any(step.sync_count and step.sync_count > 8 for step in loop.steps):
        advice.append(
            Advice(
                do="replace Python loops over device values by tensor operations (where, masked sums)",
                why="min(), max(), if and float() on a tensor each read a value back",
            )
        )
    return advice
