"""The CPUs are taken by someone else: other processes, other guests of the host, a quota."""

from __future__ import annotations

from typing import NamedTuple

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.crowd import slower
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import delivered
from gputop.diagnosis.input_wait import input_wait
from gputop.diagnosis.machine import QUOTA_SHARE, STARVED_WORKER_PCT, Machine, part_of_others
from gputop.diagnosis.wording import count, pct
from gputop.records import Advice

ID = "host-contention"
FAMILY = "host"

ENTER_PCT = 10.0
"""Percent of the step lost to others' use of the cores from which it is worth naming."""

NOTICE_PCT = 5.0
"""Percent of the step from which it is examined at all."""

STEAL_PCT = 5.0
"""CPU time that the hypervisor gave to others, percent, from which it shows."""

OTHERS_SHARE = 0.4
"""Share of all cores that other processes use from which they, and not the run itself, can be what fills them."""

SLOWED = 1.1
"""Step time since others came over the time before from which they are seen to be the reason (jitter stays within)."""

FREE_SHARE = 0.1
"""Share of the usable cores that may be free for the machine to count as full."""

OWN_CORES = Advice(do="run it where the cores are its own", why="its own code would be faster without any change")


class Claim(NamedTuple):
    """Time lost to someone else, percent of the step, what says so, and whether it was measured or estimated."""

    pct: float
    said: str
    signal: str
    measured: bool
    source: str = "host"


def examine(facts: Facts) -> Candidate | None:
    """Whether someone else has the cores that this run waits for. The share is time lost, not the others' use."""
    lost, loop = facts.lost, facts.loop
    if loop is None or lost is None:
        return None
    room = lost.total_pct if lost.source in ("device", "nvml") and lost.total_pct is not None else 100.0
    claim = max(_claims(facts), key=lambda claim: claim.pct, default=None)
    if claim is None or min(claim.pct, room) < NOTICE_PCT:
        return None
    share = min(claim.pct, room)
    case = Case(facts)
    case.at_least(claim.signal, claim.pct, ENTER_PCT, "%", claim.source, 2.0)
    if not claim.measured:
        case.missing(2.0)
    ratio = slower(loop, facts.crowd) if facts.crowd is not None else None
    if ratio is not None and ratio >= SLOWED:
        case.at_least("step time since others came to the cores, over before", ratio, SLOWED, "x", "steps", 2.0)
    _weigh_machine(case, facts.machine)
    if lost.source in ("device", "nvml"):
        case.at_least("device time lost", room, ENTER_PCT, "%", lost.source)
    elif lost.source == "host":
        case.missing(1.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"the CPUs that this run needs are taken, which costs about {pct(share)} of the step: {claim.said}"
        + (f"; steps take {ratio:.1f} times as long since they came" if ratio is not None and ratio >= SLOWED else ""),
        evidence=case.evidence,
        advice=_advice(facts),
        speedup_limit=round(ratio, 2) if ratio is not None and ratio >= SLOWED else None,
        estimated=not claim.measured,
    )


def _weigh_machine(case: Case, machine: Machine) -> None:
    others = _others(machine)
    held = None if machine.throttled_share is None else 100 * machine.throttled_share
    case.any_of(
        2.0,
        "host",
        ("CPU time taken by other guests", machine.steal_pct, STEAL_PCT, "%"),
        ("cores used by other processes", None if others is None else 100 * others, 100 * OTHERS_SHARE, "%"),
        ("time held back by the CPU quota", held, 100 * QUOTA_SHARE, "%"),
    )
    free = _free(machine)
    if free is not None and not held and not machine.steal_pct:
        case.at_most("usable cores that are free", 100 * free, 100 * FREE_SHARE, "%", "host")


def _claims(facts: Facts) -> list[Claim]:
    """Everything that says how much of the time went to others."""
    machine = facts.machine
    claims = []
    if machine.steal_pct is not None and machine.steal_pct >= STEAL_PCT:
        runnable = max(machine.cpu_pct or 100.0, machine.steal_pct)
        said = f"the hypervisor gives {pct(machine.steal_pct)} of CPU time to others"
        claims.append(Claim(100 * machine.steal_pct / runnable, said, "run time given to other guests", True))
    if machine.throttled_share is not None and machine.throttled_share >= QUOTA_SHARE:
        held = 100 * machine.throttled_share
        said = f"the CPU quota holds the process back {pct(held)} of the time"
        claims.append(Claim(held, said, "time held back by the quota", True))
    queued, starved = _queued(facts), starved_by_others(facts)
    if queued is not None and starved is not None:
        # The training thread sleeps while it waits for its workers: the two are different times and add up.
        claims.append(queued._replace(pct=queued.pct + starved.pct, signal="time without a core because of others"))
    else:
        claims += [claim for claim in (queued, starved) if claim is not None]
    return claims


def _queued(facts: Facts) -> Claim | None:
    """Time that the training thread was ready to run without a core, as far as others and not its own kin had them."""
    machine = facts.machine
    others = _others(machine)
    if machine.main_wait_pct is not None:
        part = part_of_others(machine)
        claim = machine.main_wait_pct * (1.0 if part is None else part)
        return Claim(
            claim, _neighbours(facts), "training thread ready, without a core because of others", True, "process"
        )
    free = _free(machine)
    if others is None or others < OTHERS_SHARE or free is None or free > FREE_SHARE:
        return None
    part = part_of_others(machine) or others
    bounds = [100 - machine.main_pct] if machine.main_pct is not None else []
    if machine.load_per_core is not None:
        bounds.append(100 * (1 - 1 / max(1.0, machine.load_per_core)))
    if machine.psi_cpu_pct is not None:
        bounds.append(machine.psi_cpu_pct)
    wait = min(bounds) if bounds else 100 * others / 2
    return Claim(wait * part, _neighbours(facts), "estimated time without a core because of others", False)


def starved_by_others(facts: Facts) -> Claim | None:
    """Part of the wait for data that loader workers queue for cores which others use; none where the batches that are
    waited for lie ready, which the workers' wait for a core then doesn't delay."""
    machine, lost, wait = facts.machine, facts.lost, input_wait(facts)
    if wait is not None and delivered(facts, wait):
        return None
    others, free, part = _others(machine), _free(machine), part_of_others(machine)
    if lost is None or machine.worker_pct is None or machine.worker_pct >= STARVED_WORKER_PCT:
        return None
    if machine.worker_wait_pct is not None:
        claim = lost.pct("data") * machine.worker_wait_pct / 100 * (1.0 if part is None else part)
        said = "wait for data while workers are ready without a core"
        return Claim(claim, _neighbours(facts), said, True, "process")
    if others is None or others < OTHERS_SHARE or free is None or free > FREE_SHARE:
        return None
    claim = lost.pct("data") * (1 - machine.worker_pct / 100) * (part or others)
    return Claim(claim, _neighbours(facts), "wait for data while workers queue for cores", False)


def _others(machine: Machine) -> float | None:
    """Share of all cores that other processes use."""
    return machine.others_cores / machine.cores_all if machine.others_cores is not None and machine.cores_all else None


def _free(machine: Machine) -> float | None:
    return machine.free_cores / machine.cores if machine.free_cores is not None and machine.cores else None


def _neighbours(facts: Facts) -> str:
    machine = facts.machine
    busiest = max(facts.window.others, key=lambda process: process.cpu_pct or 0.0, default=None)
    name = f", most by {busiest.name} (pid {busiest.pid})" if busiest is not None and busiest.name else ""
    if machine.others_cores is None:
        return f"the training thread waits for a core{name}"
    return f"other processes use {count(machine.others_cores, 'core')} of {machine.cores_all}{name}"


def _advice(facts: Facts) -> list[Advice]:
    machine = facts.machine
    if (machine.throttled_share or 0.0) >= QUOTA_SHARE:
        have = f" (now {count(machine.cores, 'core')})" if machine.cores else ""
        return [
            Advice(do=f"raise the CPU quota of the container or job{have}", why="its own code would be faster as is")
        ]
    advice = []
    busiest = max(facts.window.others, key=lambda process: process.cpu_pct or 0.0, default=None)
    if busiest is not None and (busiest.cpu_pct or 0.0) >= 50:
        advice.append(
            Advice(
                do=f"give {busiest.name or 'the busiest neighbour'} (pid {busiest.pid}) a lower priority, or move it",
                why=f"it uses {pct(busiest.cpu_pct or 0.0)} of a core",
                code=f"renice -n 10 -p {busiest.pid}",
            )
        )
    return [*advice, OWN_CORES]
