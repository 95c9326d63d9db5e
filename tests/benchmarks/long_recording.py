"""Makes a long recording out of simulated minutes: `python -m tests.benchmarks.long_recording FILE --hours 24`.

Some minutes of each part of the run are simulated for every rank, step by step; the hours are these minutes again and
again, shifted in time. A third of the run has too few workers, the rest has enough.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gputop import records as rec
from gputop.recording.writer import Writer
from gputop.records import end_of
from gputop.simulation.trace import START_NS, records

S = 1_000_000_000
MINUTE = 60 * S
PACE = {False: 1.8, True: 0.8}
"""Speed at which the scenario makes about 10 steps a second, planted and cured."""

SIMULATED_MINUTES = 3
VERDICT_NS = 60 * S


def minutes(rank: int, *, fixed: bool) -> list[list[rec.Record]]:
    """Some simulated minutes of one rank, each minute's records by when they were over, from time 0 on."""
    out: list[list[rec.Record]] = [[] for _ in range(SIMULATED_MINUTES)]
    for record in records(
        "input-workers", fixed=fixed, seconds=60 * SIMULATED_MINUTES, seed=rank, speed=PACE[fixed], start_ns=0
    ):
        at = end_of(record) // MINUTE
        if at < SIMULATED_MINUTES and not isinstance(record, (rec.Run, rec.Loader, rec.Model)):
            out[at].append(record)
    return [sorted(minute, key=end_of) for minute in out]


def begin(rank: int, ranks: int) -> list[rec.Record]:
    """What describes a rank."""
    found = [
        msgspec.structs.replace(one, run_id=f"rank{rank}")
        for one in itertools.islice(records("input-workers", seconds=1, seed=rank, start_ns=START_NS), 3)
    ]
    run = found[0]
    assert isinstance(run, rec.Run)
    found[0] = msgspec.structs.replace(
        run, pid=4000 + rank, rank=rank, local_rank=rank, world_size=ranks, gpu_uuid=f"GPU-{rank}", device=f"sim:{rank}"
    )
    return list(found)


def shifted(record: rec.Record, by_ns: int, rank: int, first_n: int) -> rec.Record | None:
    """A record at another time and of this rank; samples of the host come from rank 0 alone."""
    replace = msgspec.structs.replace
    t = record.t + by_ns
    if isinstance(record, rec.Step):
        return replace(record, t=t, run_id=f"rank{rank}", n=first_n + record.n)
    if isinstance(record, (rec.Gpu, rec.Burst)):
        return replace(record, t=t, gpu_uuid=f"GPU-{rank}")
    if isinstance(record, rec.Process):
        return replace(record, t=t, run_id=f"rank{rank}", pid=4000 + rank)
    if isinstance(record, (rec.Alive, rec.Event)):
        return replace(record, t=t, run_id=f"rank{rank}")
    return replace(record, t=t) if rank == 0 else None


def verdict(t: int, rank: int, *, fixed: bool) -> rec.Verdict:
    """What was said at the time, as large as a verdict is."""
    cause, family = ("gpu-bound", "device") if fixed else ("input-workers", "input")
    return rec.Verdict(
        t=t, run_id=f"rank{rank}", cause=cause, family=family, headline="a sentence of the usual length " * 4,
        confidence=0.9, share_pct=50.0, simulated=True,
        evidence=[rec.Evidence(signal=f"signal {i}", value=float(i), unit="%", threshold=5.0) for i in range(8)],
        advice=[rec.Advice(do="something", why="because " * 10, code="loader = DataLoader(...)")],
    )  # fmt: skip


def stream(hours: float, ranks: int) -> Iterator[tuple[int, list[rec.Record]]]:
    """(a second's end, its records), second by second."""
    parts = {fixed: [minutes(rank, fixed=fixed) for rank in range(ranks)] for fixed in (False, True)}
    numbers = [0] * ranks
    yield START_NS, [one for rank in range(ranks) for one in begin(rank, ranks)]
    total = round(60 * hours)
    for minute in range(total):
        fixed = minute >= total // 3
        by_ns = START_NS + MINUTE * minute - MINUTE * (minute % SIMULATED_MINUTES)
        seconds: list[list[rec.Record]] = [[] for _ in range(60)]
        for rank in range(ranks):
            mine = parts[fixed][rank][minute % SIMULATED_MINUTES]
            steps = [one.n for one in mine if isinstance(one, rec.Step)]
            for record in mine:
                moved = shifted(record, by_ns, rank, numbers[rank] - steps[0])
                if moved is not None:
                    seconds[end_of(record) % MINUTE // S].append(moved)
            numbers[rank] += len(steps)
            seconds[0].append(verdict(START_NS + MINUTE * minute, rank, fixed=fixed))
        for second, found in enumerate(seconds):
            yield START_NS + MINUTE * minute + (second + 1) * S, found


def write(path: Path, hours: float, ranks: int) -> float:
    """Write it; returns the CPU seconds that the writer took."""
    writer = Writer(path, now_ns=START_NS)
    spent, now = 0.0, START_NS
    for now, found in stream(hours, ranks):
        started = time.thread_time()
        for record in found:
            writer.add(record)
        writer.commit(now)
        spent += time.thread_time() - started
    writer.close(now)
    return spent


def main() -> None:
    """Write one from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--ranks", type=int, default=8)
    given = parser.parse_args()
    spent = write(given.file, given.hours, given.ranks)
    print(f"{given.file}: {given.file.stat().st_size / 1e6:.0f} MB, {spent:.0f} s of CPU in the writer")


if __name__ == "__main__":
    main()
