"""Loader workers saturate the CPUs: decoding and augmentation need more cores than there are."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.causes.host_contention import starved_by_others
from gputop.diagnosis.causes.input_oversubscribed import SWITCHING, SWITCHING_PCT, switches
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import (
    CROWDED,
    LATE_SHARE,
    LOAD_PER_CORE,
    blocked,
    confined,
    delivered,
    pools,
    takes_turns,
)
from gputop.diagnosis.input_wait import (
    BUSY_WORKER_PCT,
    CHEAPER,
    ENTER_PCT,
    FREE_SHARE,
    InputWait,
    cores_short,
    input_wait,
    room_share,
    waits,
)
from gputop.diagnosis.machine import STARVED_WORKER_PCT, part_of_others, switching_pct
from gputop.diagnosis.wording import count, time
from gputop.records import Advice

ID = "input-cpu"
FAMILY = "input"

QUIET_IOWAIT_PCT = 10.0
"""CPU time waiting for I/O, percent, above which storage rather than computing may be what takes the time."""

OVERTHREADED_PCT = 130.0
"""CPU of one worker (one core = 100) above which its own thread pool is at work: oversubscription, not decoding."""


CROWDED_PCT = 15.0
"""Wall time, percent, that the training thread is ready without a core from which its own workers crowd it out."""

TAKEN_SHARE = 0.25
"""Share of the usable cores that the workers must take for it to be they who do."""

FULL_SHARE = 0.15
"""Share of the usable cores that the run leaves below which they are full."""


def examine(facts: Facts) -> Candidate | None:
    """Whether making batches needs more cores than there are: the loop waits for them, or for a core of its own."""
    waits_for_data, waits_for_a_core = _starving(facts), _crowded(facts)
    if waits_for_data is None or waits_for_a_core is None:
        return waits_for_data or waits_for_a_core
    return max(waits_for_data, waits_for_a_core, key=lambda candidate: candidate.share_pct)


def _crowded(facts: Facts) -> Candidate | None:
    """On a CPU batches lie ready, or nearly so, as the workers take the cores that the training thread computes on.

    Without the workers' work the thread would have them: that is what it costs, as far as the thread waits for a core
    or for data.
    """
    machine, workers = facts.machine, (facts.loader.num_workers if facts.loader else None)
    room = room_share(facts, workers)
    if not workers or not machine.cores or machine.worker_pct is None or facts.lost is None:
        return None
    taken, waiting = workers * machine.worker_pct / machine.cores, _queued_pct(facts)
    if room is None or room > FULL_SHARE or machine.worker_pct > OVERTHREADED_PCT or switches(machine):
        return None
    if waiting < CROWDED_PCT or taken < 100 * TAKEN_SHARE:
        return None
    share = min(100.0, taken, waiting + facts.lost.pct("data"))
    case = Case(facts)
    case.at_least("training thread ready without a core, its workers having them", waiting, CROWDED_PCT, "%", "process")
    case.at_least("usable cores that the workers take", taken, 100 * TAKEN_SHARE, "%", "process", 2.0)
    case.at_most("usable cores that this run leaves", 100 * room, 100 * FULL_SHARE, "%", "host")
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{count(workers, 'worker')} {'takes' if workers == 1 else 'take'} {taken:.0f} % of "
        f"{count(machine.cores, 'core')}, and the training thread has none {waiting:.0f} % of the time: "
        "making batches costs more CPU than there is",
        evidence=case.evidence,
        advice=_advice(facts, None),
        speedup_limit=speedup(share),
    )


def _queued_pct(facts: Facts) -> float:
    """Wall time, percent, that a training thread which computes on the CPU stands ready without a core because of its
    own workers."""
    machine = facts.machine
    if facts.lost is None or facts.lost.source != "cpu" or machine.main_wait_pct is None:
        return 0.0
    return machine.main_wait_pct * (1 - (part_of_others(machine) or 0.0))


def _starving(facts: Facts) -> Candidate | None:
    """Whether the wait for data comes from work that no free core is left for."""
    wait = input_wait(facts)
    if wait is None or wait.waiting or delivered(facts, wait):
        return None
    machine = facts.machine
    room = wait.room_share
    if room is None and machine.worker_pct is None:
        return _turns(facts, wait) if takes_turns(wait) else None
    short = cores_short(facts, wait)
    if room is not None and room >= 2 * FREE_SHARE and not short:
        return None
    case = Case(facts)
    case.at_least("step time lost waiting for data", wait.lost_pct, ENTER_PCT, "%", "steps")
    if short:
        case.weigh("speed-up by more workers on these cores", "small", True, None, "host", 2.0)
    elif room is None:
        case.missing(2.0)
    else:
        case.at_most("usable cores that this run leaves", 100 * room, 100 * FREE_SHARE, "%", "host", 2.0)
    if wait.workers == 0:
        if not short:
            case.at_most("cores that the run may use", machine.cores, 1.0, "cores", "run", 2.0)
    elif machine.worker_pct is None:
        case.missing(1.0)
    else:
        full = room is not None and room < FREE_SHARE
        busy = STARVED_WORKER_PCT if full else BUSY_WORKER_PCT
        at_work = machine.worker_pct + (machine.worker_wait_pct or 0.0)
        signal = "CPU of each worker" if not machine.worker_wait_pct else "CPU of each worker, waits for a core with it"
        case.at_least(signal, at_work, busy, "%", "process", 1.5)
        case.at_most("CPU of each worker", machine.worker_pct, OVERTHREADED_PCT, "%", "process", 0.5)
        if switches(machine):
            case.at_most(SWITCHING, switching_pct(machine), SWITCHING_PCT, "%", "process", 2.0)
    if wait.workers is None:
        case.missing(1.0)
    elif wait.workers and machine.cores and not short:
        case.at_least("workers for each usable core", wait.workers / machine.cores, 0.75, "", "loader", 0.5)
    if (crowd := confined(facts, wait)) is not None:
        case.at_most("workers for each usable core", crowd, CROWDED, "", "loader", 2.0)
    if (load := pools(facts, wait)) is not None:
        case.at_most("threads that want each core", load, LOAD_PER_CORE, "", "host", 2.0)
    case.at_most("CPU time waiting for I/O", machine.iowait_pct, QUIET_IOWAIT_PCT, "%", "host", 0.75)
    late = wait.late_share
    if late is not None and (late < LATE_SHARE or blocked(facts, wait)) and (room is None or room >= FREE_SHARE):
        case.at_most("waits with later batches ready", 100 * late, 100 * LATE_SHARE, "%", "steps")
    for site, pct in worker_lines(facts):
        case.weigh(f"a worker's work that is at {site}", pct, True, "%", "stack samples", 0.0)
    crowded = _queued_pct(facts) if wait.workers and room is not None and room <= FULL_SHARE else 0.0
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=wait.lost_pct,
        fit=case.fit,
        headline=_headline(facts, wait),
        evidence=case.evidence,
        advice=_advice(facts, wait.batch_ms),
        speedup_limit=speedup(min(100.0, wait.lost_pct + crowded)),
        gain_pct=wait.lost_pct - starved.pct if (starved := starved_by_others(facts)) else None,
    )


def _turns(facts: Facts, wait: InputWait) -> Candidate:
    """By the beat of the waits alone: there are workers, several, and what each does for a batch takes too long."""
    case = Case(facts)
    case.at_least("step time lost waiting for data", wait.lost_pct, ENTER_PCT, "%", "steps")
    case.at_least("steps from one long wait to the next", float(wait.shape.period or 0), 2, "steps", "steps", 1.5)
    case.missing(1.0)
    advice = Advice(
        do="or more workers, where cores are free", why=f"about {wait.shape.period} of them seem to take turns"
    )
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=wait.lost_pct,
        fit=case.fit,
        headline=f"{waits(wait)}: workers that take turns can't keep up; how many there are, and whether cores are "
        "free, is not known",
        evidence=case.evidence,
        advice=[*_advice(facts, None)[:1], advice],
        speedup_limit=speedup(wait.lost_pct),
        estimated=True,
    )


def _headline(facts: Facts, wait: InputWait) -> str:
    machine, text = facts.machine, waits(wait)
    if wait.workers == 0 and machine.cores:
        return (
            f"{text}: making a batch takes the training thread too long (num_workers=0), and workers on "
            f"{count(machine.cores, 'core')} would win little"
        )
    at = f"workers at {machine.worker_pct:.0f} % CPU each" if machine.worker_pct is not None else "loading the data"
    cores = f"all {count(machine.cores, 'core')}" if machine.cores else "all cores"
    if machine.own_pct is None:
        return f"{text}: {at}, on {count(machine.cores, 'core')}" if machine.cores else f"{text}; {at}"
    return f"{text}: {at}, {cores} taken ({count(machine.own_pct / 100, 'core')} by this run)"


def worker_lines(facts: Facts) -> list[tuple[str, float]]:
    """The three hottest of the user's lines in the loader worker that was looked into, and what percentage of its work
    each is; none where none was looked into."""
    sites = [one for one in facts.window.worker.sites if one.phase == "worker"] if facts.window.worker else []
    whole = sum(one.samples for one in sites)
    hottest = sorted(sites, key=lambda one: -one.samples)[:3]
    return [(one.site, 100 * one.samples / whole) for one in hottest]


def _advice(facts: Facts, batch_ms: float | None) -> list[Advice]:
    cost = (
        f"a batch takes {time(batch_ms)} of CPU time" if batch_ms is not None else "each batch costs too much CPU time"
    )
    return [
        Advice(
            do="do less CPU work per sample"
            + (f", most of it at {lines[0][0]}" if (lines := worker_lines(facts)) else "")
            + f": {CHEAPER}"
            + (", augment on the GPU" if facts.device.on_gpu else ""),
            why=f"{cost} and no core is left, so more workers would only take turns"
            if facts.machine.cores and facts.machine.worker_pct is not None
            else cost,
            code="images = images.to(device, non_blocking=True)\n"
            "images = gpu_augment(images)  # e.g. torchvision.transforms.v2 on a device batch"
            if facts.device.on_gpu
            else None,
        ),
        Advice(
            do="or run it where there are more cores",
            why="the input scales with cores",
        ),
    ]
