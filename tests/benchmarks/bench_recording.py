"""What recordings cost and how fast they are read. Run: `pytest -m bench -s tests/benchmarks/bench_recording.py`.

A long one is made first, in about ten minutes; GPUTOP_BENCH_HOURS sets its length (24) for a quicker look.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from gputop.recording.reader import Recording
from gputop.recording.writer import Writer
from gputop.records import Run, Step

from . import long_recording

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]

S = 1_000_000_000
HOURS = float(os.environ.get("GPUTOP_BENCH_HOURS", "24"))
T0 = 1_760_000_000 * S


def steps(count: int, *, device: bool) -> list[Step]:
    """Steps of about 100 ms as the publisher sends them, with the figures of a host or of a device clock."""
    rnd = random.Random(1)
    out = []
    for n in range(count):
        phases = {"data": rnd.randrange(1_000_000, 90_000_000), "h2d": 700_000 + n % 999, "self": 40_000 + n % 99}
        phases |= {"forward": 11_000_000 + n, "backward": 21_000_000 + n, "optimizer": 3_000_000 + n % 9999}
        marks = {
            "gpu_ns": {
                "h2d": 600_000 + n,
                "forward": 12_000_000 + n,
                "backward": 24_000_000 + n,
                "optimizer": 2_000_000,
            },
            "gpu_idle_ns": {"data": rnd.randrange(1_000_000, 50_000_000), "other": 300_000 + n},
            "queue_empty": 0.333,
            "h2d_bytes": 77_000_000,
        }
        out.append(
            Step(
                t=T0 + n * S // 10,
                run_id="r",
                n=n,
                dur_ns=90_000_000 + n,
                phases_ns=phases,
                samples=128,
                batches=1,
                had_backward=True,
                optimizer_step=True,
                loader_id=0,
                epoch=3,
                ready_batches=2,
                host_cpu_ns=31_000_000 + n,
                **(marks if device else {}),
            )
        )  # fmt: skip
    return out


@pytest.mark.parametrize("ranks", [1, 8])
@pytest.mark.parametrize("device", [False, True])
def test_a_step(tmp_path: Path, device: bool, ranks: int) -> None:
    """Budget: 110 bytes a step on the host clock, 160 with the device clock; 6 us a step."""
    mine = steps(100_000, device=device)
    if ranks > 1:
        mine = [
            msgspec.structs.replace(one, run_id=f"r{at % ranks}", n=at // ranks, t=T0 + at // ranks * S // 10)
            for at, one in enumerate(mine)
        ]
    times, sizes = [], []
    for attempt in range(3):
        path = tmp_path / f"{attempt}.gputop"
        writer = Writer(path, now_ns=T0)
        writer.add(Run(t=T0, run_id="r", pid=1, host="h"))
        writer.commit(T0)
        started = time.thread_time()
        for at in range(0, len(mine), 80):
            for step in mine[at : at + 80]:
                writer.add(step)
            writer.commit(T0 + at // ranks * S // 10)
        times.append((time.thread_time() - started) / len(mine) * 1e6)
        writer.close(T0)
        sizes.append(path.stat().st_size / len(mine))
    clock, budget = ("device", 160) if device else ("host", 110)
    print(
        f"\na step of {ranks} ranks at 10 steps/s, 80 a commit, {clock} clock: {sizes[0]:.0f} bytes with index and "
        f"sums (budget {budget}), {statistics.median(times):.1f} us of the recorder's thread (3 runs, least "
        f"{min(times):.1f}; budget 6)"
    )


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    kept = os.environ.get("GPUTOP_BENCH_RECORDING")
    if kept and Path(kept).exists():
        return Path(kept)
    path = Path(kept) if kept else tmp_path_factory.mktemp("long") / "long.gputop"
    spent = long_recording.write(path, HOURS, 8)
    with_all = path.stat().st_size / Recording(path).info().steps
    print(f"\n{HOURS:g} h of 8 ranks at 10 steps/s: {path.stat().st_size / 1e6:.0f} MB, {with_all:.0f} bytes a step "
          f"with all samples of GPUs, host and processes; {spent:.0f} s of CPU to write")  # fmt: skip
    return path


def median_of(ask: Callable[[], object], times: int) -> float:
    """The median time of a call, in ms."""
    out = []
    for _ in range(times):
        started = time.perf_counter()
        ask()
        out.append(1000 * (time.perf_counter() - started))
    return statistics.median(out)


def test_open_and_seek(long: Path) -> None:
    """Budget: open 0.3 s, seek 20 ms."""

    def opened() -> None:
        recording = Recording(long)
        recording.info()
        recording.close()

    recording = Recording(long)
    info = recording.info()
    rnd = random.Random(1)
    moments = iter([rnd.randrange(info.from_ns, info.to_ns) for _ in range(100)])

    def sought() -> None:
        at = next(moments)
        found = recording.records(from_ns=at, to_ns=at + 10 * S)
        for _ in zip(range(1000), found, strict=False):
            pass

    print(
        f"\n{info.steps / 1e6:.1f} million steps: opened in {median_of(opened, 5):.0f} ms (budget 300); "
        f"a place found and its first 1,000 records read in {median_of(sought, 30):.1f} ms (budget 20); all that "
        f"the screen needs there (8 ranks and GPUs) in {median_of(lambda: recording.at(next(moments)), 30):.0f} ms"
    )


@pytest.mark.parametrize(
    "words",
    [
        ["report", "--json"],
        ["report", "--html", "OUT.html"],
        ["export", "--to", "jsonl", "-o", "OUT.jsonl"],
        ["export", "--to", "csv", "-o", "OUT.csv"],
    ],
)
def test_commands(long: Path, tmp_path: Path, words: list[str]) -> None:
    """No budget but that memory stays bounded: told."""
    out = [word.replace("OUT", str(tmp_path / "out")) for word in words]
    started = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, out[0], str(long), *out[1:]], capture_output=True, text=True, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    peak = done.stderr.rpartition("peak ")[2].strip()
    assert done.returncode == 0, done.stderr[-2000:]
    print(
        f"\ngputop {' '.join(words)}: {time.perf_counter() - started:.1f} s, "
        f"{after.ru_utime - before.ru_utime:.1f} s of CPU, {float(peak) / 1024:.0f} MB at its peak"
    )


MEASURED = """
import resource, sys
from gputop.cli import run
code = run(sys.argv[1:])
print("peak", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)
sys.exit(code)
"""
