"""Other threads of the training's own process that run Python: only one of them has the interpreter at a time."""

from __future__ import annotations

from typing import NamedTuple

from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.machine import part_of_others
from gputop.diagnosis.numbers import known, mean
from gputop.diagnosis.phases import EPISODIC, HOST

BUSY_PCT = 30.0
"""CPU of the process's other threads together (one core = 100) from which they can be what has the interpreter."""

ONE_CORE_PCT = 105.0
"""CPU of those threads, percent of a core, above which it is not the interpreter that they have: whatever runs Python
takes turns on one core. They are operators' own, and the training thread waits for its part of them."""

STILL_PCT = 50.0
"""CPU of the training thread, percent, below which it mostly stands still: it does its part of each operator itself."""

MANY_THREADS = 4
"""Threads of the process for each core that it may use from which its operators have more than there are cores."""

ELSEWHERE = (HOST, "sync", "comm", "h2d", *EPISODIC)
"""Parts of a step in which a thread that has a core may wait for something else: a disk, a network, another rank."""


class Held(NamedTuple):
    """Time, percent, in which the training thread neither runs nor wants a core nor waits for anything that is known,
    and CPU of the process's other threads, percent of a core."""

    pct: float
    others_pct: float


def held(facts: Facts) -> Held | None:
    """How long the training thread stands still while other threads of its process run; None where nothing says so.

    On a CPU alone, where the thread itself computes each operator: beside a GPU it waits for threads that launch
    backward, beside other ranks for those that exchange gradients. The threads that help it in an operator leave it
    busy.
    """
    machine, loop, run = facts.machine, facts.loop, facts.window.run
    if loop is None or facts.lost is None or facts.lost.source != "cpu" or (run.world_size or 1) > 1:
        return None
    if machine.main_pct is None or machine.main_wait_pct is None or machine.process_pct is None:
        return None
    others = machine.process_pct - machine.main_pct
    if others < BUSY_PCT or others > ONE_CORE_PCT:
        return None
    workers = facts.loader.num_workers if facts.loader else machine.workers
    elsewhere = sum(loop.pct(part) for part in ELSEWHERE) + (loop.pct("data") if workers else 0.0)
    strangers = machine.main_wait_pct * (part_of_others(machine) or 0.0)
    return Held(max(0.0, 100 - machine.main_pct - strangers - elsewhere), others)


def pool_waits(facts: Facts) -> bool:
    """Whether a training thread that computes on the CPU mostly stands still while operators' own threads run on more
    than one core: there are more of them than cores, so that each operator ends when the last has had its turn."""
    machine, loop = facts.machine, facts.loop
    if loop is None or facts.lost is None or facts.lost.source != "cpu":
        return False
    if machine.main_pct is None or machine.process_pct is None or not machine.cores:
        return False
    threads = mean(known([process.threads for process in facts.window.process]))
    pool = machine.process_pct - machine.main_pct > ONE_CORE_PCT and machine.main_pct < STILL_PCT
    return pool and threads is not None and threads >= MANY_THREADS * machine.cores and loop.compute_pct() >= 50
