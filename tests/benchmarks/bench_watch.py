"""What watching costs: judging, many ranks, a week of it. Run: `pytest -m bench -s tests/benchmarks/bench_watch.py`."""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from msgspec import structs

from gputop.diagnosis.verdict import Judge
from gputop.records import AnyRecord, Gpu, Host, Run, Step
from gputop.tracks import S
from gputop.watching import Watch

pytestmark = pytest.mark.bench
MS = 1_000_000


def run(rank: int, world: int) -> Run:
    return Run(t=0, run_id=f"r{rank}", pid=rank + 1, host="h", rank=rank, world_size=world, script="train.py",
               device=f"cuda:{rank}", cores_allowed=96)  # fmt: skip


def step(rank: int, n: int, dur_ms: int) -> Step:
    ns = dur_ms * MS
    phases = {"data": ns // 10, "h2d": ns // 50, "forward": ns // 4, "backward": ns // 2, "optimizer": ns // 20}
    return Step(t=n * ns, run_id=f"r{rank}", n=n, dur_ns=ns, phases_ns=phases, samples=64, loader_id=1,
                had_backward=True, optimizer_step=True)  # fmt: skip


def machine(second: int, gpus: int) -> list[AnyRecord]:
    out: list[AnyRecord] = [Host(t=second * S, host="h", cpu_pct=30.0, cores=96, iowait_pct=0.5)]
    for index in range(gpus):
        out.append(Gpu(t=second * S, host="h", gpu_uuid=f"g{index}", gpu_index=index, util_pct=70.0,
                       mem_used_bytes=40 << 30, mem_total_bytes=80 << 30, power_w=400.0))  # fmt: skip
    return out


def timed(plain: Step) -> Step:
    """The step with device times of every phase."""
    ns = plain.dur_ns
    device = {"h2d": ns // 60, "forward": ns // 4, "backward": ns // 2, "optimizer": ns // 20}
    return structs.replace(plain, gpu_ns=device, gpu_idle_ns={"data": ns // 12}, queue_empty=0.2)


def in_turn(plain: Step) -> Step:
    """The step with device times of one phase, another one each time."""
    whole = timed(plain)
    name = ("h2d", "forward", "backward", "optimizer")[plain.n % 4]
    return structs.replace(whole, gpu_ns={name: (whole.gpu_ns or {})[name]})


def starved(plain: Step) -> Step:
    """The step with device times, its queue found empty."""
    return structs.replace(timed(plain), queue_empty=0.9)


CLOCKS: dict[str, Callable[[Step], Step]] = {
    "the host's clock": lambda plain: plain,
    "device times in every step": timed,
    "device times of a phase a step": in_turn,
    "device times with an empty queue": starved,
}
"""What is known of a step."""


def test_judging_eight_ranks() -> None:
    """Budget: one window of 8 ranks in 5 ms."""
    best = {}
    for clock, seen in CLOCKS.items():
        watch = Watch()
        for rank in range(8):
            watch.add(run(rank, 8))
        for n in range(600):
            for rank in range(8):
                watch.add(seen(step(rank, n, 100)))
        for second in range(60):
            for record in machine(second, 8):
                watch.add(record)
        times = []
        for nudge in range(40):  # another moment each time, so that no window is known already
            judges = [Judge() for _ in range(8)]
            started = time.perf_counter()
            for rank, judge in enumerate(judges):
                judge.update(watch.timeline.window(f"r{rank}", 60 * S + nudge))
            times.append(1000 * (time.perf_counter() - started))
        best[clock] = min(times)
        print(f"\njudging 8 ranks once, {clock}: best {min(times):.2f} ms, median {statistics.median(times):.2f} ms, "
              f"max {max(times):.2f} ms (budget 5 ms)")  # fmt: skip
    assert best["the host's clock"] <= 5


def test_a_thousand_ranks() -> None:
    """Budget: 1,024 ranks at 5 steps/s in half a core."""
    watch = Watch()
    for rank in range(1024):
        watch.add(run(rank, 1024))
    spent = []
    for second in range(20):
        records = [step(rank, second * 5 + i, 200) for rank in range(1024) for i in range(5)]
        records += machine(second, 8)
        started = time.process_time()
        for record in records:
            watch.add(record)
        watch.tick((second + 1) * S)
        watch.view((second + 1) * S)
        spent.append(time.process_time() - started)
    print(f"\n1,024 ranks at 5 steps/s: {100 * statistics.median(spent[10:]):.0f} % of a core (budget 50 %)")


def test_judging_a_thousand_ranks() -> None:
    """Budget: 1,024 ranks judged in 100 ms: at once when they are met, and as they go on."""
    for clock in ("the host's clock", "device times in every step"):
        watch, spent = Watch(), []
        for rank in range(1024):
            watch.add(run(rank, 1024))
        for second in range(20):
            for rank in range(1024):
                for i in range(5):
                    watch.add(CLOCKS[clock](step(rank, second * 5 + i, 200)))
            for record in machine(second, 8):
                watch.add(record)
            if second >= 12:
                began = time.thread_time()
                verdicts = watch.tick((second + 1) * S)
                spent.append(1000 * (time.thread_time() - began))
        print(f"\njudging 1,024 ranks, {clock}: {len(verdicts)} verdicts; the first time {spent[0]:.0f} ms, then "
              f"median {statistics.median(spent[1:]):.0f} ms, max {max(spent[1:]):.0f} ms (budget 100 ms)")  # fmt: skip
        assert min(spent) <= 100


WEEK = """
import asyncio, resource, sys
from gputop.tracks import S
from gputop.tui.app import GputopApp
from gputop.tui.options import Options
from gputop.tui.terminal import Terminal
from gputop.watching import Watch
from tests.benchmarks.bench_watch import machine, run, step
from tests.tui.views import Canned

def rss():
    return round(int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 1e6, 1)

async def main(days):
    watch = Watch()
    for rank in range(8):
        watch.add(run(rank, 8))
    picture = Canned(watch.view(0))
    app = GputopApp(picture, Options(refresh=3600), Terminal("truecolor", False), clock=lambda: 0.0)
    async with app.run_test(size=(120, 40)) as pilot:
        for minute in range(days * 24 * 60):
            for rank in range(8):
                for i in range(60):
                    watch.add(step(rank, minute * 60 + i, 1000))
            for second in range(0, 60, 20):
                for record in machine(minute * 60 + second, 8):
                    watch.add(record)
            if minute % 10 == 0:
                watch.tick(minute * 60 * S)
                picture.shown = watch.view(minute * 60 * S)
                await pilot.press(*("w" if minute % 200 == 0 else ""))
                app.tick()
                await pilot.pause()
            if minute % (24 * 60) == 24 * 60 - 1:
                print(rss(), end=" ", flush=True)

asyncio.run(main(int(sys.argv[1])))
"""


def test_a_week_of_eight_ranks_on_the_screen() -> None:
    """Budget: flat, at most 120 MB, with the screen that draws it. Every tier is full after two days."""
    done = subprocess.run([sys.executable, "-c", WEEK, "7"], capture_output=True, text=True, check=True, timeout=1800)
    print(f"\nresident memory after each simulated day, 8 ranks and 8 GPUs: {done.stdout.strip()} MB (budget 120 MB)")


def test_taking_in_steps() -> None:
    """What one step costs the watching side."""
    watch = Watch()
    watch.add(run(0, 1))
    records = [step(0, n, 1) for n in range(20_000)]
    gc.collect()
    started = time.process_time()
    for record in records:
        watch.add(record)
    print(f"\ntaking in a step: {1e6 * (time.process_time() - started) / len(records):.1f} us")
