"""The CPUs are taken by someone else: other processes, other guests of the host, a quota."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.wording import count, pct
from gputop.records import Advice

ID = "host-contention"
FAMILY = "host"

STEAL_PCT = 5.0
"""CPU time that the hypervisor gave to others, percent, from which it shows."""

OTHERS_SHARE = 0.4
"""Share of all cores that other processes use, with none free, from which they hold this run up."""

FREE_SHARE = 0.1
"""Share of the usable cores that may be free for the machine to count as full."""

QUOTA_SHARE = 0.05
"""Share of the time that the cgroup's quota holds the process back from which it counts."""

NOTICE_PCT = 5.0
"""Percent of the step from which it is examined at all."""


def examine(facts: Facts) -> Candidate | None:
    """Whether someone else has the cores that this run waits for; the share is the part of its lost time they took."""
    machine, lost, loop = facts.machine, facts.lost, facts.loop
    if loop is None or lost is None:
        return None
    free = machine.free_cores / machine.cores if machine.free_cores is not None and machine.cores else None
    full = free is not None and free <= FREE_SHARE
    others = (
        machine.others_cores / machine.cores_all if machine.others_cores is not None and machine.cores_all else None
    )
    taken = max(
        (machine.steal_pct or 0.0) / 100,
        machine.throttled_share or 0.0,
        (others or 0.0) if full else 0.0,
    )
    waiting = 100.0 if lost.source == "cpu" else (lost.total_pct or 0.0)
    share = taken * waiting
    if share < NOTICE_PCT:
        return None
    case = Case(facts)
    held = None if machine.throttled_share is None else 100 * machine.throttled_share
    if not case.any_of(
        3.0,
        "host",
        ("CPU time taken by other guests", machine.steal_pct, STEAL_PCT, "%"),
        (
            "cores used by other processes",
            100 * others if others is not None and full else None,
            100 * OTHERS_SHARE,
            "%",
        ),
        ("time held back by the CPU quota", held, 100 * QUOTA_SHARE, "%"),
    ):
        return None
    if free is not None:
        case.at_most("usable cores that are free", 100 * free, 100 * FREE_SHARE, "%", "host")
    case.at_least("step time lost", waiting, 10, "%", lost.source)
    neighbour = max(facts.window.others, key=lambda process: process.cpu_pct or 0.0, default=None)
    name = f", most by {neighbour.name} (pid {neighbour.pid})" if neighbour is not None and neighbour.name else ""
    what = (
        f"other processes use {count(machine.others_cores or 0, 'core')} of {machine.cores_all}{name}"
        if full and (others or 0) >= OTHERS_SHARE
        else f"the hypervisor gives {pct(machine.steal_pct or 0)} of CPU time to others"
        if (machine.steal_pct or 0) >= STEAL_PCT
        else f"the CPU quota holds the process back {pct(held or 0)} of the time"
    )
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"the CPUs that this run needs are taken: {what}",
        evidence=case.evidence,
        advice=[
            Advice(
                do="run it where the cores are its own, or give it a share of them",
                why="its own code would be faster without any change",
                code="taskset -c 0-7 python train.py",
            )
        ],
        estimated=True,
    )
