"""The real `gputop` on a pty: first paint, bytes, processor time with its samplers, leaving while the driver hangs.

Run: `pytest -m bench -s tests/benchmarks/bench_live.py`. Eight GPUs of the simulated NVML library, a CPU loop. With
GPUTOP_PEERS naming the bin folder of an environment that has nvitop and gpustat, those are measured beside it.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psutil
import pytest

from tests import nvml_stub
from tests.cli.processes import environment
from tests.pictures import filled
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


def installed(directory: Path) -> dict[str, str]:
    """As after an installation: byte code is written at the first start and found at the next ones."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}


def paints(words: tuple[str, ...], env: dict[str, str], text: bytes = b"gputop") -> list[float]:
    """Seconds until the first frame, each start in a process of its own; one goes before that is not counted."""
    took = []
    for _ in range(8):
        began = time.monotonic()
        with Terminal(*words, module="gputop", size=(120, 40), env=env) as terminal:
            terminal.wait_for(text, 10)
            took.append(time.monotonic() - began)
            terminal.press(b"q")
            terminal.ended()
    return took[1:]


def told(what: str, took: list[float]) -> None:
    print(f"\n{what}: median {statistics.median(took):.2f} s, max {max(took):.2f} s (budget 0.5 s)")


def test_first_paint(short_dir: Path, tmp_path: Path, machine: tuple[nvml_stub.StubState, dict[str, str]]) -> None:
    env = environment(short_dir, machine[1] | installed(tmp_path))
    told("first paint", paints((), env))
    told("of a demo", paints(("demo",), env))
    replay = ("replay", str(filled(tmp_path / "a.gputop")), "--from", "60s")
    told("of a replay", paints(replay, env))
    told("of the verdict in it", paints(replay, env, b"INPUT-WORKERS"))


@contextmanager
def moving(state: nvml_stub.StubState) -> Iterator[None]:
    """Eight GPUs whose load, memory, power and temperature change every second, as those of a training do."""
    done = threading.Event()

    def move() -> None:
        for tick in count():
            for gpu in range(8):
                load = (37 * tick + 11 * gpu) % 101
                state.set({f"{gpu}.util": load, f"{gpu}.mem_used": (20 + load // 8) << 30,
                           f"{gpu}.power_mw": 1000 * (100 + 3 * load), f"{gpu}.temp": 40 + load // 8})  # fmt: skip
            if done.wait(1.0):
                return

    thread = threading.Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def test_beside_its_peers(short_dir: Path, tmp_path: Path, machine: tuple[nvml_stub.StubState, dict[str, str]]) -> None:
    peers = os.environ.get("GPUTOP_PEERS")
    if not peers:
        pytest.skip("GPUTOP_PEERS names no folder")
    env = environment(short_dir, machine[1] | installed(tmp_path))
    alone = {name: value for name, value in env.items() if name != "PYTHONPATH"}
    python = str(Path(peers) / "python")
    with moving(machine[0]):
        with Terminal(module="gputop", size=(120, 40), env=env) as terminal:
            terminal.shows("mem", 10)
            measure(terminal, "gputop", "2 %; 3 KB/s")
        for module, words, shown in (("nvitop", ("--monitor", "--interval", "1"), b"GPU-Util"),
                                     ("gpustat", ("-i", "1"), b"[7]")):  # fmt: skip
            with Terminal(*words, module=module, python=python, size=(120, 40), env=alone, cwd=tmp_path) as terminal:
                terminal.wait_for(shown, 20)
                measure(terminal, module, "none: a peer")
                took = paint_of(module, words, shown, python, alone, tmp_path)
            told(f"first paint of {module}", took)


def paint_of(
    module: str, words: tuple[str, ...], shown: bytes, python: str, env: dict[str, str], cwd: Path
) -> list[float]:
    """Seconds until a peer shows its GPUs, each start in a process of its own."""
    took = []
    for _ in range(5):
        began = time.monotonic()
        with Terminal(*words, module=module, python=python, size=(120, 40), env=env, cwd=cwd) as terminal:
            terminal.wait_for(shown, 20)
            took.append(time.monotonic() - began)
    return took


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
        terminal.shows("mem", 10)
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


def test_quit_while_the_driver_hangs(short_dir: Path, machine: tuple[nvml_stub.StubState, dict[str, str]]) -> None:
    state, env = machine
    quits = []
    for _ in range(5):
        state.drop("delay.nvmlDeviceGetUtilizationRates 0")
        with Terminal(module="gputop", size=(120, 40), env=environment(short_dir, env)) as terminal:
            terminal.shows("mem", 10)
            state.set({"delay.nvmlDeviceGetUtilizationRates 0": 60_000})
            terminal.read(4)
            terminal.press(b"q")
            quits.append(terminal.ended()[1])
    print(
        f"\nquit while the driver hangs: median {statistics.median(quits):.2f} s, max {max(quits):.2f} s (budget 0.5 s)"
    )
