"""Device memory is so full that the allocator retries or spills to the host, or host memory that it swaps."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.device import reserves
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.machine import busiest_pct
from gputop.diagnosis.phases import COMPUTE
from gputop.diagnosis.retries import Retries, retries
from gputop.diagnosis.wording import count, pct, size
from gputop.records import Advice

ID = "memory-pressure"
FAMILY = "device"

FULL_PCT = 92.0
"""Device memory in use, percent, from which retries are to be expected (a published rule warns at 92)."""

HOST_FULL_PCT = 90.0
"""Host memory in use, percent, from which swapping is for want of it and no leftover."""

RETRIES_PER_STEP = 0.02
"""Allocator retries per step from which they are more than an accident of the first steps."""

SWAP_BYTES_S = 1_000_000.0
"""Swap-in rate of the machine from which memory is really short (a published rule takes 1 MB/s)."""

STORM_BYTES_S = 10_000_000.0
"""Swap-in rate from which whatever the run waits for may be its own pages: thousands of faults a second."""

BRIM_PCT = 97.0
"""Device memory in use, percent, beyond what frameworks reserve at most (90 to 95): the rest spills to the host."""

CALM_PCT = 50.0
"""CPU of the training (one core = 100) below which it neither launches nor works while the device rests."""

NOTICE_PCT = 5.0
"""Percent of the step from which it is examined at all."""

ENTER_PCT = 10.0
"""Percent of the step from which it is worth naming."""


SMALLER = Advice(do="a smaller batch, or gradient checkpointing", why="what exceeds the card lies in host memory")


def examine(facts: Facts) -> Candidate | None:
    """Whether full memory costs time: by retries of the allocator, or by swapping. Full memory alone is no fault."""
    if facts.loop is None:
        return None
    found = retries(facts.loop)
    if found is not None and found.rate >= RETRIES_PER_STEP:
        return _retrying(facts, found)
    rate = facts.machine.swap_in_bytes_s
    return _swapping(facts, rate) if rate is not None and rate >= SWAP_BYTES_S else _spilling(facts)


def _retrying(facts: Facts, found: Retries) -> Candidate | None:
    loop, lost, device = facts.loop, facts.lost, facts.device
    assert loop is not None
    share = max(found.excess_pct or 0.0, lost.unseen_pct if lost else 0.0)
    full = device.mem_pct is None or device.mem_pct >= FULL_PCT
    if found.excess_pct is None and lost is not None and lost.total_pct is not None and full:
        share = max(share, sum(lost.pct(part) for part in COMPUTE))
    if share < NOTICE_PCT:
        return None
    case = Case(facts)
    case.at_least("step time lost around retries, or idle with them", share, ENTER_PCT, "%", "steps")
    case.at_least("allocator retries per step", found.rate, RETRIES_PER_STEP, "", "steps", 2.0)
    case.at_least("device memory in use", device.mem_pct, FULL_PCT, "%", "driver", 1.5)
    used = f" with memory {pct(device.mem_pct)} full" if device.mem_pct is not None else ""
    batch = facts.loader.batch_size if facts.loader else None
    advice = [
        Advice(
            do=f"batch_size {batch} → {max(1, batch * 3 // 4)}" if batch else "a smaller batch",
            why="a retry frees the whole cache and waits for the device, which costs more than it gains",
        ),
        Advice(
            do="or let the allocator grow its segments",
            why="less is lost to fragments",
            code="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
    ]
    text = f"the device's allocator retried {count(found.count, 'time')} in {loop.n} steps{used}, draining it each time"
    return _candidate(case, share, text, advice)


def _swapping(facts: Facts, rate: float) -> Candidate | None:
    machine, lost, loop = facts.machine, facts.lost, facts.loop
    assert loop is not None
    share = max(machine.psi_mem_pct or 0.0, 100 * max(0.0, loop.mean_ms - loop.median_ms) / loop.mean_ms)
    if rate >= STORM_BYTES_S and lost is not None:
        share = max(share, lost.total_pct or 0.0)
    if share < NOTICE_PCT:
        return None
    case = Case(facts)
    case.at_least("step time lost while the machine swaps", share, ENTER_PCT, "%", "steps")
    case.at_least("swapping in", rate, SWAP_BYTES_S, "B/s", "host", 2.0)
    case.at_least("host memory in use", machine.mem_pct, HOST_FULL_PCT, "%", "host", 1.5)
    advice = [
        Advice(
            do="use less host memory: fewer loader workers, a shorter prefetch queue, a smaller cache of samples",
            why="pages that are needed again are read back from disk while everything waits for them",
        )
    ]
    return _candidate(case, share, f"the machine is short of memory and swaps in {size(rate)}/s", advice)


def _spilling(facts: Facts) -> Candidate | None:
    """Memory full to the brim while neither device nor host works in the model's own phases: pages come and go."""
    device, lost, busy = facts.device, facts.lost, busiest_pct(facts.machine)
    if not device.on_gpu or lost is None or lost.total_pct is None or reserves(facts.window.run):
        return None
    if device.mem_pct is None or device.mem_pct < BRIM_PCT or busy is None or busy >= CALM_PCT:
        return None
    share = sum(lost.pct(part) for part in COMPUTE)
    if share < NOTICE_PCT:
        return None
    case = Case(facts)
    case.at_least("device idle where work is launched", share, ENTER_PCT, "%", lost.source, 1.5)
    case.at_least("device memory in use", device.mem_pct, BRIM_PCT, "%", "driver", 1.5)
    case.at_most("CPU of the training", busy, CALM_PCT, "%", "process", 1.5)
    case.missing(1.0)
    advice = [SMALLER]
    text = (
        f"device memory is {pct(device.mem_pct)} full while device and CPU both rest: it seems to spill to host memory"
    )
    return _candidate(case, share, text, advice)


def _candidate(case: Case, share: float, text: str, advice: list[Advice]) -> Candidate:
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{text} ({pct(share)} of the step)",
        evidence=case.evidence,
        advice=advice,
        speedup_limit=speedup(share),
        estimated=True,
        beside=True,
    )
