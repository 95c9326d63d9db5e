"""Python or CPU work in the loop holds the device up: logging, metrics, drawing; steady or every N steps."""

from __future__ import annotations

from gputop.diagnosis.beside import beside_site
from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts, batches_unseen
from gputop.diagnosis.interpreter import BUSY_PCT, held
from gputop.diagnosis.launching import MANY_READS
from gputop.diagnosis.loop import Loop, Shape, shape
from gputop.diagnosis.pauses import pauses
from gputop.diagnosis.phases import HOST, role
from gputop.diagnosis.recompiles import recompiles
from gputop.diagnosis.retries import retries
from gputop.diagnosis.wording import cost, count, pct, time
from gputop.records import Advice

ID = "host-work"
FAMILY = "host"

ENTER_PCT = 10.0
"""Percent of the step lost to work on the host from which it is worth naming (a published rule takes 10)."""

NOTICE_PCT = 5.0
"""Percent from which it is examined at all."""

STILL_PCT = 25.0
"""Percent of the time that the training thread stands still for another thread from which that is worth naming: as much
as a fault on a CPU must explain."""

WORKING_PCT = 50.0
"""CPU of the training thread (one core = 100) from which the loop computes; below it, it waits."""

RARELY = "if step % 50 == 0:\n    log(metrics)"
"""How work is done less often than at every step."""


def examine(facts: Facts) -> Candidate | None:
    """Whether time between and beside the step's own phases leaves the device idle, and where that code stands."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None:
        return None
    share = lost.pct(HOST)
    phase = _largest(facts)
    collecting = _collecting(facts)
    if collecting is not None and collecting.share_pct >= share / 2:
        return collecting
    beside = _another_thread(facts)
    if beside is not None and beside.share_pct >= share:
        return beside
    if share < NOTICE_PCT or phase is None:
        return None
    case = Case(facts)
    case.at_least("step time lost to work in the loop", share, ENTER_PCT, "%", "steps")
    if loop.opaque and phase == "other":
        case.missing(3.0)
    if lost.source == "device":
        case.weigh("device idle meanwhile", share, HOST not in lost.upper, "%", "device", 1.5, ENTER_PCT)
    elif lost.source == "host":
        case.missing(1.0)
    elif lost.source == "nvml":
        case.at_most("GPU utilization", facts.device.util_pct, 100 - ENTER_PCT, "%", "driver")
    main = facts.machine.main_pct
    if main is not None and main >= WORKING_PCT:
        case.at_least("CPU of the training thread", main, WORKING_PCT, "%", "process", 0.5)
    if loop.beside * loop.pct("forward") / (1 - loop.beside) >= share / 2:
        phase, site = "forward", beside_site(facts.window)
        case.weigh("forward in which torch was not asked for anything", 100 * loop.beside, True, "%", "stack samples")
    else:
        site = _site(facts, phase)
    if loop.opaque and phase == "other" and site is None and lost.source != "device":
        return None
    again = retries(loop)
    if again is not None and (again.excess_pct or 0.0) >= share / 2:
        case.weigh("allocator retries in the long steps", float(again.count), False, "", "steps", 2.0)
    anew = recompiles(facts)
    if anew is not None and (anew.excess_pct is None or anew.excess_pct >= share / 2):
        case.weigh("steps that compile or meet a new shape", float(anew.count), False, "", "steps", 2.0)
    if _reads(loop) >= MANY_READS and loop.ms("sync") >= loop.ms(HOST):
        case.at_most("reads of device values per step", _reads(loop), MANY_READS, "", "steps", 2.0)
    if site is not None:
        case.weigh("where the training thread was found", site, True, None, "stack samples")
    form = shape(loop, HOST)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=_headline(facts, share, phase, site, form),
        evidence=case.evidence,
        advice=_advice(facts, phase, site, form),
        speedup_limit=speedup(share),
        estimated=HOST in lost.upper,
    )


def _collecting(facts: Facts) -> Candidate | None:
    """The garbage collector's pauses, in whatever phase they fall: no launch is made meanwhile."""
    lost, found = facts.lost, pauses(facts)
    if found is None or lost is None:
        return None
    share = found.pct if lost.total_pct is None else min(found.pct, lost.total_pct + lost.unseen_pct)
    if lost.source == "cpu":
        share = found.pct
    if share < NOTICE_PCT:
        return None
    case = Case(facts)
    case.at_least("time in pauses of the garbage collector", share, ENTER_PCT, "%", "events", 2.0)
    case.at_least("such pauses", float(found.number), 1, "", "events")
    every = f", one every {found.period} steps" if found.period and found.period > 1 else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"Python's garbage collector stops the loop for {time(found.mean_ms)} "
        f"{count(found.number, 'time')}{every}: {pct(share)} of the time",
        evidence=case.evidence,
        advice=[
            Advice(
                do="collect at moments of your own choice, and leave out what lives for the whole run",
                why="each collection walks over every object that the script has made",
                code="gc.collect()\ngc.freeze()  # after model, loader and dataset are there\ngc.disable()\n"
                "if step % 1000 == 0:\n    gc.collect()",
            )
        ],
        speedup_limit=speedup(share),
    )


def _another_thread(facts: Facts) -> Candidate | None:
    """Another thread of the script's own has the interpreter while the training thread wants it."""
    found = held(facts)
    if found is None or found.pct < STILL_PCT:
        return None
    case = Case(facts)
    case.at_least("training thread neither running nor in want of a core", found.pct, STILL_PCT, "%", "process", 2.0)
    case.at_least("CPU of the process's other threads", found.others_pct, BUSY_PCT, "%", "process", 2.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=found.pct,
        fit=case.fit,
        headline=f"the training thread stands still {pct(found.pct)} of the time while another thread of this process "
        f"is at work ({pct(found.others_pct)} of a core): it waits for the interpreter, or for what that thread makes",
        evidence=case.evidence,
        advice=[
            Advice(
                do="give that work a process of its own (a DataLoader's workers, if it makes batches), or let it rest",
                why="Python runs one thread at a time: each turn of another one is 5 ms in which no operator is called",
                code="threading.enumerate()  # what else runs here\nmultiprocessing.Process(target=work).start()",
            )
        ],
        speedup_limit=speedup(found.pct),
    )


def _reads(loop: Loop) -> float:
    counts = [step.sync_count for step in loop.steps if step.sync_count is not None]
    return sum(counts) / len(counts) if counts else 0.0


def _largest(facts: Facts) -> str | None:
    """The phase that most of the host work is marked as: `other` where nobody marked it."""
    shares = [share for share in facts.ledger if role(share.phase) == HOST]
    return max(shares, key=lambda share: share.pct).phase if shares else None


def _site(facts: Facts, phase: str) -> str | None:
    """The line at which the training thread was found most often in that phase."""
    seen: dict[str, int] = {}
    for record in facts.window.sites:
        for sample in record.sites:
            if sample.phase == phase:
                seen[sample.site] = seen.get(sample.site, 0) + sample.samples
    return max(seen, key=seen.__getitem__) if seen else None


def _headline(facts: Facts, share: float, phase: str, site: str | None, form: Shape) -> str:
    loop = facts.loop
    assert loop is not None
    what = "work in the loop outside forward, backward and optimizer" if phase == "other" else f"the phase {phase!r}"
    if phase == "forward":
        what = "work in the loop between the batch and backward, beside the model,"
    if loop.opaque and phase == "other":
        what = "work in the loop"
    idle = " with the device idle" if facts.device.on_gpu and share else ""
    at = f", most often found at {site}" if site else ""
    took = cost(loop.ms(HOST), loop.mean_ms, share, on_gpu=facts.device.on_gpu is not False)
    if not form.steady and form.period and form.period > 1:
        return f"{what} takes {time(form.long_ms)} every {form.period} steps ({pct(share)} of the time){idle}{at}"
    return f"{what} takes {took}{idle}{at}"


def _advice(facts: Facts, phase: str, site: str | None, form: Shape) -> list[Advice]:
    if phase == "forward" and site is None:
        site = "what comes between batch and backward"
    place = site or (f"the code in phase {phase!r}" if phase != "other" else "the code after the optimizer's step")
    rare = form.period is not None and form.period > 1 and not form.steady
    first = Advice(
        do=f"do {place} less often, or in another thread or process",
        why="the device gets no work while the training thread is busy with it"
        if facts.device.on_gpu
        else "no step goes on while the training thread is busy with it",
        code=None if rare else RARELY,
    )
    if phase == "forward" and batches_unseen(facts):
        first = Advice(
            do=f"if {place} makes the batches, let a DataLoader's workers make them ahead; else do it less often",
            why=first.why,
            code="loader = DataLoader(dataset, batch_size=64, num_workers=2, persistent_workers=True)",
        )
    later = [
        Advice(
            do="keep metrics as tensors on the device and read them only when they are logged",
            why="the loop then runs ahead of the device and its own work costs nothing",
        )
    ]
    if not facts.device.on_gpu:
        later = []
    if phase == "other" and site is None:
        mark = Advice(
            do="mark its parts to see which",
            why="gputop knows how long it takes, not yet what it is",
            code='with gputop.phase("metrics"):\n    ...',
        )
        return [first, mark, *later]
    return [first, *later]
