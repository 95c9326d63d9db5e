"""What the samplers cost: both children with 8 GPUs over the simulated library, and each kind of tick on its own.

    python -m tests.benchmarks.bench_samplers

The simulated library answers at once, so this is our own part; a real driver's calls come on top.
"""

from __future__ import annotations

import json
import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gputop.samplers import proc
from gputop.samplers.host import MachineBackend
from gputop.samplers.processes import _all
from gputop.samplers.protocol import Targets
from gputop.samplers.supervisor import Supervisor
from tests.nvml_stub import StubState, build, env

pytestmark = pytest.mark.bench

SECONDS = 30
TICKS = 200
S = 1_000_000_000

_TICKS = """
import json, sys, time
from gputop.samplers.nvml import NvmlBackend
backend = NvmlBackend(host="box")
backend.open()
cost, records = [], []
for tick in range(int(sys.argv[1])):
    began = time.process_time_ns()
    records = backend.sample((tick + 1) * 1_000_000_000)
    cost.append(time.process_time_ns() - began)
from gputop.samplers.frames import frame
print(json.dumps({"ns": cost[5:], "bytes": len(frame(records))}))
"""


def cpu_ticks(pid: int) -> int:
    stat = proc.of(pid)
    return stat.user_ticks + stat.system_ticks


def children_cpu(folder: Path, state: StubState) -> dict[str, float]:
    """Percent of one core that each child uses at the default pace, its start left out."""
    supervisors = {kind: Supervisor(kind, host="box", env=env(folder, state)).start() for kind in ("gpu", "host")}
    supervisors["host"].tell({"pids": {os.getpid(): "run"}})

    def run(seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            select.select([one.fileno() for one in supervisors.values()], [], [], 0.5)
            for one in supervisors.values():
                one.read()
                one.tick(time.time_ns())

    run(3)
    pids = {kind: one.pid or 0 for kind, one in supervisors.items()}
    before = {kind: cpu_ticks(pid) for kind, pid in pids.items()}
    run(SECONDS)
    used = {
        f"{kind} child, % of a core": (cpu_ticks(pid) - before[kind]) * proc.TICK_NS / (SECONDS * S) * 100
        for kind, pid in pids.items()
    }
    used |= {f"{kind} child, RSS MB": proc.of(pid).rss_bytes / 1e6 for kind, pid in pids.items()}
    for one in supervisors.values():
        one.close()
    return used


def gpu_tick(folder: Path, state: StubState, name: str) -> dict[str, float]:
    """CPU time of one tick, and the bytes that it sends."""
    said = subprocess.run(
        [sys.executable, "-c", _TICKS, str(TICKS)], capture_output=True, env=env(folder, state), check=True
    ).stdout
    got = json.loads(said)
    return {
        f"{name}: median us a tick": statistics.median(got["ns"]) / 1000,
        f"{name}: max us a tick": max(got["ns"]) / 1000,
        f"{name}: bytes a tick": got["bytes"],
    }


def cost_us(call: Callable[[], object]) -> float:
    costs = []
    for _ in range(50):
        began = time.process_time_ns()
        call()
        costs.append(time.process_time_ns() - began)
    return statistics.median(costs) / 1000


def host_tick() -> dict[str, float]:
    """CPU time of a tick of the host, and of a scan of all processes; that of 5,000 is this one scaled up."""
    backend = MachineBackend(host="box")
    backend.follow(Targets(pids={os.getpid(): "run"}))
    now = [S]

    def tick() -> None:
        now[0] += S // 10
        backend.sample(now[0])

    count = len(proc.pids())
    scan = cost_us(_all)
    return {
        "host: median us a tick": cost_us(tick),
        f"host: us to scan {count} processes": scan,
        "host: us to scan 5,000 processes (scaled)": scan / count * 5000,
    }


def measure() -> dict[str, float]:
    """Every figure, by name."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        folder, state = build(root), StubState(root / "gpus")
        state.set({f"{gpu}.procs": f"{os.getpid()}:1000000:C" for gpu in range(8)}, devices=8)
        figures = children_cpu(folder, state)
        figures |= gpu_tick(folder, state, "8 GPUs")
        state.set(devices=16)
        figures |= gpu_tick(folder, state, "16 GPUs")
        gone = " ".join(f"{pid}:1000:C" for pid in range(20_000, 22_000))
        state.set({f"{gpu}.procs": gone for gpu in range(8)}, devices=8)
        figures |= gpu_tick(folder, state, "8 GPUs, 2,000 dead pids each")
    return figures | host_tick()


def test_samplers() -> None:
    figures = measure()
    for name, value in figures.items():
        print(f"{name:45} {value:10.2f}")
    # Bytes may gate, times don't: other work on the machine moves them.
    assert figures["8 GPUs: bytes a tick"] < 20_000


if __name__ == "__main__":
    for line, figure in measure().items():
        print(f"{line:45} {figure:10.2f}")
