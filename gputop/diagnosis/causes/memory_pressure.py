"""Device memory is so full that the allocator retries, or host memory that it swaps."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.loop import Loop
from gputop.diagnosis.wording import count, pct, size
from gputop.records import Advice

ID = "memory-pressure"
FAMILY = "device"

FULL_PCT = 92.0
"""Device memory in use, percent, from which retries are to be expected (a published rule warns at 92)."""

RETRIES_PER_STEP = 0.02
"""Allocator retries per step from which they are more than an accident of the first steps."""

SWAP_BYTES_S = 1_000_000.0
"""Swap-in rate of the machine from which memory is really short (a published rule takes 1 MB/s)."""

NOTICE_PCT = 5.0
"""Percent of the step from which it is examined at all."""


def examine(facts: Facts) -> Candidate | None:
    """Whether full memory costs time: by retries of the allocator, or by swapping. Full memory alone is no fault."""
    loop, device = facts.loop, facts.device
    if loop is None:
        return None
    retries = _retries(loop)
    rate = retries / loop.n if retries is not None else None
    swapping = facts.machine.swap_in_bytes_s
    retried = rate is not None and rate >= RETRIES_PER_STEP
    if not retried and not (swapping is not None and swapping >= SWAP_BYTES_S):
        return None
    share = max(_excess(loop), facts.lost.unseen_pct if facts.lost else 0.0)
    if share < NOTICE_PCT:
        return None
    case = Case(facts)
    case.at_least("step time lost around retries, or idle that no phase explains", share, 10, "%", "steps")
    case.any_of(
        2.0,
        "steps",
        ("allocator retries per step", rate, RETRIES_PER_STEP, ""),
        ("swapping in", swapping, SWAP_BYTES_S, "B/s"),
    )
    if retried:
        case.at_least("device memory in use", device.mem_pct, FULL_PCT, "%", "driver", 1.5)
    used = f" with memory {pct(device.mem_pct)} full" if device.mem_pct is not None else ""
    what = (
        f"the device's allocator retried {count(retries or 0, 'time')} in {loop.n} steps{used}, draining it each time"
        if retried
        else f"the machine is short of memory and swaps in {size(swapping or 0)}/s"
    )
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{what} ({pct(share)} of the step)",
        evidence=case.evidence,
        advice=_advice(facts) if retried else [Advice(do="use less host memory: fewer workers or a smaller cache")],
        speedup_limit=speedup(share),
        estimated=True,
        beside=True,
    )


def _retries(loop: Loop) -> int | None:
    counted = [step.alloc_retries for step in loop.steps if step.alloc_retries is not None]
    return max(0, counted[-1] - counted[0]) if len(counted) > 1 else None


def _excess(loop: Loop) -> float:
    """Percent of wall time by which steps with a retry exceed the median of those without."""
    flags = [False]
    for before, step in zip(loop.steps, loop.steps[1:], strict=False):
        grew = before.alloc_retries is not None and (step.alloc_retries or 0) > before.alloc_retries
        flags.append(grew)
    calm = sorted(ms for ms, flag in zip(loop.dur, flags, strict=True) if not flag)
    if not any(flags) or len(calm) < 3:
        return 0.0
    usual = calm[len(calm) // 2]
    extra = sum(max(0.0, ms - usual) for ms, flag in zip(loop.dur, flags, strict=True) if flag)
    return 100 * extra / sum(loop.dur)


def _advice(facts: Facts) -> list[Advice]:
    batch = facts.loader.batch_size if facts.loader else None
    smaller = f"batch_size {batch} → {max(1, batch * 3 // 4)}" if batch else "a smaller batch"
    return [
        Advice(
            do=smaller, why="a retry frees the whole cache and waits for the device, which costs more than it gains"
        ),
        Advice(
            do="or let the allocator grow its segments",
            why="less is lost to fragments",
            code="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        ),
    ]
