"""Reading the data is the limit: a disk, a network mount, a cache that is cold or too small, many small files."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_signs import DISK_WAIT_SHARE, LONG_SAMPLE_MS, TAIL_RATIO, heavy_tailed, long_samples, remote
from gputop.diagnosis.input_wait import (
    BUSY_WORKER_PCT,
    ENTER_PCT,
    IDLE_WORKER_PCT,
    InputWait,
    input_wait,
    loader_code,
    waits,
)
from gputop.diagnosis.wording import pct, size, time
from gputop.records import Advice, clean

ID = "input-disk"
FAMILY = "input"

DISK_BUSY_PCT = 80.0
"""Disk busy time, percent, from which it is the limit (published rules: 80 warn, 95 critical)."""

IOWAIT_PCT = 10.0
"""CPU time waiting for I/O, percent of all cores: with idle cores beside it, only disks are awaited."""


SMALL_READS_BYTES_S = 25e6
"""Bytes a second of a disk that is busy all the time below which its reads are small or scattered: any disk reads more
in one go (an old one 100 MB/s)."""

COLD_PCT = 50.0
"""Part of what the run reads that the page cache has, percent, below which it is cold or too small."""


def examine(facts: Facts) -> Candidate | None:
    """Whether the wait for data is a wait for storage; None unless something about storage says so."""
    wait = input_wait(facts)
    if wait is None:
        return None
    machine = facts.machine
    case = Case(facts)
    case.at_least("step time lost waiting for data", wait.lost_pct, ENTER_PCT, "%", "steps")
    stuck = None if machine.workers_in_disk_wait is None else 100 * machine.workers_in_disk_wait
    away = remote(facts)
    which = f" ({clean(machine.disk, 32)})" if machine.disk else ""
    signals = [
        (f"disk busy{which}", machine.disk_busy_pct, DISK_BUSY_PCT, "%"),
        ("CPU time waiting for I/O", machine.iowait_pct, IOWAIT_PCT, "%"),
        ("looks that found workers in disk wait", stuck, 100 * DISK_WAIT_SHARE, "%"),
    ]
    if away:
        case.weigh("file system of the data set", away, True, None, "loader", 1.5)
        signals = [signal for signal in signals if signal[1] is not None and signal[1] >= signal[2]]
    busy = case.any_of(3.0, "host", *signals)
    if machine.disk_await_ms is not None and busy:
        case.weigh("time that a request to it took", round(machine.disk_await_ms, 2), True, "ms", "host", 0.0)
    if machine.cached_pct is not None:
        case.weigh("bytes read that the page cache had", round(machine.cached_pct, 1), False, "%", "process", 0.0)
    tailed = heavy_tailed(wait)
    if tailed:
        form = wait.shape
        case.at_least(
            "longest wait over the median one", form.max_ms / max(form.median_ms, 1e-3), TAIL_RATIO, "x", "steps"
        )
    long = None if tailed else long_samples(facts, wait)
    if long is not None:
        case.at_least("worker time for one sample", long, LONG_SAMPLE_MS, "ms", "steps")
    if machine.worker_pct is not None:
        if machine.worker_pct <= IDLE_WORKER_PCT:
            case.at_most("CPU of each worker", machine.worker_pct, IDLE_WORKER_PCT, "%", "process")
        else:
            case.at_most("CPU of each worker", machine.worker_pct, BUSY_WORKER_PCT, "%", "process")
    if not (busy or tailed or long or (away and (machine.worker_pct or 0) <= IDLE_WORKER_PCT)):
        return None
    if machine.disk_busy_pct is None and machine.iowait_pct is None and stuck is None:
        case.missing(2.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=wait.lost_pct,
        fit=case.fit,
        headline=f"{waits(wait)}: {_what(facts, away, tailed, long)}",
        evidence=case.evidence,
        advice=_advice(facts, wait, away),
        speedup_limit=speedup(wait.lost_pct, _floor(facts) if wait.workers else 0.0),
    )


def _floor(facts: Facts) -> float:
    """Percent of the step that the workers compute: without the wait for storage that is what is left of a batch.

    What the kernel does for them is left out where it is known: finding room for pages and fetching them is most of it.
    """
    machine = facts.machine
    computing = 100 * (1 - machine.workers_in_disk_wait) if machine.workers_in_disk_wait is not None else 100.0
    own = max(0.0, (machine.worker_pct or 0.0) - (machine.worker_system_pct or 0.0))
    return min(computing, own)


def _what(facts: Facts, away: str | None, tailed: bool, long: float | None) -> str:
    machine = facts.machine
    parts = []
    if machine.disk_busy_pct is not None and machine.disk_busy_pct >= DISK_BUSY_PCT:
        parts.append(f"{clean(machine.disk, 32) if machine.disk else 'the disk'} is {machine.disk_busy_pct:.0f} % busy")
    if machine.iowait_pct is not None and machine.iowait_pct >= IOWAIT_PCT:
        parts.append(f"{machine.iowait_pct:.0f} % of CPU time awaits I/O")
    if machine.disk_read_bytes_s:
        scattered = " in small or scattered reads" if _small_reads(facts) else ""
        parts.append(f"reading {size(machine.disk_read_bytes_s)}/s{scattered}")
    if (cache := _cache(facts)) is not None:
        parts.append(cache)
    if away:
        parts.append(f"the data lies on {away}")
    if not parts and tailed:
        parts.append("waits come irregularly and are very long, as slow storage makes them")
    if not parts and long:
        parts.append(f"a sample takes {time(long)} of a worker, far more than decoding does")
    return ", ".join(parts) or "the workers wait for storage"


def _small_reads(facts: Facts) -> bool:
    """Whether a disk that is busy all the time yields little."""
    machine = facts.machine
    busy = machine.disk_busy_pct is not None and machine.disk_busy_pct >= DISK_BUSY_PCT
    return busy and machine.disk_read_bytes_s is not None and 0 < machine.disk_read_bytes_s < SMALL_READS_BYTES_S


def _cache(facts: Facts) -> str | None:
    """What the page cache had of the reads: cold in the first pass, too small where later passes read anew."""
    machine, loop = facts.machine, facts.loop
    if machine.cached_pct is None or machine.cached_pct >= COLD_PCT or loop is None:
        return None
    had = f"the page cache had {pct(machine.cached_pct)} of it"
    latest = loop.steps[-1].epoch
    if loop.firsts or (latest or 0) > 0:
        return f"{had} though it was read before: the data set has outgrown it"
    return f"{had}, cold in a first pass" if latest == 0 else had


def _advice(facts: Facts, wait: InputWait, away: str | None) -> list[Advice]:
    first = "copy the data set to a local SSD or into RAM" if away else "move the data set to a faster disk or into RAM"
    advice = [
        Advice(
            do=first, why="reads are the limit, not the CPU", code="cp -r DATASET /dev/shm/  # or a local NVMe disk"
        ),
        Advice(
            do="pack many small files into few large ones (tar shards, LMDB, memory-mapped arrays)",
            why="each small file costs a round trip; large reads run at the disk's full rate",
        ),
    ]
    if wait.workers is not None and away:
        more = max(4, 2 * wait.workers)
        advice.append(
            Advice(
                do=f"or num_workers {wait.workers} → {more}: remote reads overlap",
                why="latency, not bandwidth, limits a remote file system",
                code=loader_code(facts, num_workers=more),
            )
        )
    return advice[::-1] if not away and _small_reads(facts) else advice
