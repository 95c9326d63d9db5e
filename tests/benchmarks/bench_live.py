"""The real `gputop` on a pty: first paint, bytes, processor time with its samplers, leaving while the driver hangs.

Run: `pytest -m bench -s tests/benchmarks/bench_live.py`. Eight GPUs of the simulated NVML library, a CPU loop.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests import nvml_stub
from tests.cli.processes import environment
from tests.tui.ptys import Terminal

pytestmark = pytest.mark.bench
LOOP = Path(__file__).parents[1] / "e2e" / "loop.py"


@pytest.fixture
def machine(tmp_path: Path) -> tuple[nvml_stub.StubState, dict[str, str]]:
    state = nvml_stub.StubState(tmp_path / "state")
    state.set({"devices": 8})
    env = nvml_stub.env(nvml_stub.build(tmp_path), state)
    return state, {name: env[name] for name in ("LD_LIBRARY_PATH", "GPUTOP_NVML_STUB")}


def busy(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for one in processes for times in [one.cpu_times()])


def measure(terminal: Terminal, what: str, budget: str) -> None:
    terminal.read(6)
    parent = psutil.Process(terminal.pid)
    processes = [parent, *parent.children(recursive=True)]
    before, began = busy(processes), time.monotonic()
    wrote = len(terminal.read(20))
    took = time.monotonic() - began
    share = 100 * (busy(processes) - before) / took
    memory = sum(one.memory_info().rss for one in processes) / 1e6
    print(f"\n{what}: {share:.1f} % of a core with both samplers (budget {budget}), {wrote / took / 1000:.2f} KB/s, "
          f"{memory:.0f} MB resident in {len(processes)} processes")  # fmt: skip


def test_eight_gpus_without_a_run(short_dir: Path, machine: tuple[nvml_stub.StubState, dict[str, str]]) -> None:
    with Terminal(module="gputop", size=(120, 40), env=environment(short_dir, machine[1])) as terminal:
        terminal.wait_for(b" % mem", 10)
        measure(terminal, "8 GPUs, no run", "2 %; 3 KB/s")


def test_eight_gpus_with_a_run(short_dir: Path, machine: tuple[nvml_stub.StubState, dict[str, str]]) -> None:
    env = environment(short_dir, machine[1])
    loop = subprocess.Popen([sys.executable, str(LOOP), "plain", "--way", "watch"], env=env)
    try:
        with Terminal(module="gputop", size=(120, 40), env=env) as terminal:
            terminal.wait_for(b"confidence", 30)
            measure(terminal, "8 GPUs and a run of some 100 steps/s", "3 %; 3 KB/s")
    finally:
        loop.kill()
        loop.wait()


def test_first_paint_and_quit_while_the_driver_hangs(
    short_dir: Path, machine: tuple[nvml_stub.StubState, dict[str, str]]
) -> None:
    state, env = machine
    paints, quits = [], []
    for _ in range(5):
        state.drop("delay.nvmlDeviceGetUtilizationRates 0")
        began = time.monotonic()
        with Terminal(module="gputop", size=(120, 40), env=environment(short_dir, env)) as terminal:
            terminal.wait_for(b"gputop", 10)
            paints.append(time.monotonic() - began)
            terminal.wait_for(b" % mem", 10)
            state.set({"delay.nvmlDeviceGetUtilizationRates 0": 60_000})
            terminal.read(4)
            terminal.press(b"q")
            quits.append(terminal.ended()[1])
    print(f"\nfirst paint: median {statistics.median(paints):.2f} s, max {max(paints):.2f} s (budget 0.5 s)")
    print(
        f"quit while the driver hangs: median {statistics.median(quits):.2f} s, max {max(quits):.2f} s (budget 0.5 s)"
    )
