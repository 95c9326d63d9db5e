"""The samplers in a crowd, over a day, and beside their peers; everything on the same simulated library in one run.

    python -m tests.benchmarks.bench_crowd

Peers are measured where they are installed: name their folder in GPUTOP_PEERS (a virtual environment's bin).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from gputop.samplers import proc
from tests.benchmarks import bench_samplers
from tests.nvml_stub import StubState, build, env

pytestmark = pytest.mark.bench

CROWD = 5000
TICKS = 20_000
"""Ticks of the soak: a day at one each 4.3 s, in compressed time. What leaks, leaks by the tick."""

PEER_SECONDS = 20.0
PEERS = {"nvitop": ["nvitop", "--monitor"], "gpustat": ["gpustat", "--interval", "1", "--no-color"]}
PATIENCE_S = 15.0
"""How long a program is waited for after `q`."""

ANSWERS = {b"\x1b[6n": b"\x1b[1;1R", b"\x1b[c": b"\x1b[?62;22c", b"\x1b[?u": b"\x1b[?0u"}
"""What a terminal answers to the questions that programs ask it when they start (ECMA-48, DSR and DA)."""

_CROWD_C = r"""
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int many = argc > 1 ? atoi(argv[1]) : 0, made = 0;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (; made < many; made++) {
        pid_t child = fork();
        if (child < 0) break;
        if (!child) { prctl(PR_SET_PDEATHSIG, SIGKILL); for (;;) pause(); }
        printf("%d\n", child);
    }
    printf("end\n");
    fflush(stdout);
    for (;;) pause();
}
"""

_SOAK = """
import os, sys
from gputop.samplers.host import MachineBackend
from gputop.samplers.nvml import NvmlBackend
from gputop.samplers.protocol import Targets
from gputop.samplers.frames import frame
nvml, host = NvmlBackend(host="box"), MachineBackend(host="box")
nvml.open(); host.open()
host.follow(Targets(pids={os.getpid(): "run"}))
def now():
    rss = int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return rss, len(os.listdir("/proc/self/fd"))
for tick in range(int(sys.argv[1]) + 1):
    t = (tick + 1) * 4_300_000_000
    frame(nvml.sample(t))
    if tick % 10 == 0:
        frame(host.sample(t))
    if tick in (1000, int(sys.argv[1])):
        print(*now())
"""


@contextmanager
def crowd(folder: Path, many: int) -> Iterator[list[int]]:
    """Processes that do nothing; fewer where the system allows no more."""
    source, program = folder / "crowd.c", folder / "crowd"
    source.write_text(_CROWD_C)
    subprocess.run(["cc", "-O1", "-o", str(program), str(source)], check=True)
    with subprocess.Popen([str(program), str(many)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = []
        while (line := parent.stdout.readline()) not in ("end\n", ""):
            pids.append(int(line))
        yield pids
        parent.kill()
    while any(os.path.exists(f"/proc/{pid}") for pid in pids[-50:]):
        time.sleep(0.1)


def in_a_crowd(root: Path) -> dict[str, float]:
    """CPU of both children with 16 GPUs and 5,000 processes, of which each is on one of the GPUs."""
    folder, state = build(root), StubState(root / "crowded")
    with crowd(root, CROWD) as pids:
        state.set({f"{gpu}.procs": " ".join(f"{pid}:1000:C" for pid in pids[gpu::16]) for gpu in range(16)}, devices=16)
        found = bench_samplers.children_cpu(folder, state)
        return {f"{len(proc.pids())} processes, 16 GPUs: {name}": value for name, value in found.items()}


def soak(root: Path) -> dict[str, float]:
    """Memory and descriptors after a thousand ticks and after a day of them."""
    folder, state = build(root), StubState(root / "soaked")
    state.set({"*.gpm": 1, "*.gpm.2": 50, "*.procs": f"{os.getpid()}:1000:C"}, devices=8)
    said = subprocess.run(
        [sys.executable, "-c", _SOAK, str(TICKS)], capture_output=True, text=True, env=env(folder, state), check=True
    ).stdout.split()
    early, late = (float(said[0]), float(said[1])), (float(said[2]), float(said[3]))
    return {
        "soak: MB after 1,000 ticks": early[0], "soak: MB after a day of ticks": late[0],
        "soak: descriptors after 1,000 ticks": early[1], "soak: descriptors after a day of ticks": late[1],
    }  # fmt: skip


def beside_peers(root: Path) -> dict[str, float]:
    """A whole live view on a terminal, ours and the peers', one after the other: CPU and bytes with 8 GPUs, CPU with
    5,000 processes on 16, and the time from `q` to the end while a call to the driver hangs."""
    folder, state = build(root), StubState(root / "peers")
    variables = {**env(folder, state), "TERM": "xterm-256color", "GPUTOP_DIR": str(root), "GPUTOP_DIR_ONLY": "1"}
    commands = {"gputop": [sys.executable, "-m", "gputop"]}
    peers = os.environ.get("GPUTOP_PEERS", "")
    for name, (program, *words) in PEERS.items():
        if peers and os.path.exists(os.path.join(peers, program)):
            commands[name] = [os.path.join(peers, program), *words]
    figures = {}
    state.set({f"{gpu}.procs": f"{os.getpid()}:1000000:C" for gpu in range(8)}, devices=8)
    for name, words in commands.items():
        figures[f"8 GPUs, no run: {name}, % of a core"], figures[f"8 GPUs, no run: {name}, KB/s"] = busy(
            words, variables
        )
    for name, words in commands.items():
        figures[f"q while the driver hangs: {name}, s"] = leaving(words, variables, state)
    with crowd(root, CROWD) as pids:
        state.clear()
        state.set({f"{gpu}.procs": " ".join(f"{pid}:1000:C" for pid in pids[gpu::16]) for gpu in range(16)}, devices=16)
        for name, words in commands.items():
            figures[f"{CROWD} processes on 16 GPUs: {name}, % of a core"] = busy(words, variables)[0]
    return figures


@contextmanager
def on_terminal(command: list[str], variables: dict[str, str]) -> Iterator[tuple[int, int]]:
    """A command's pid and the terminal that it draws on, 120x40."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        os.execve(command[0], command, variables)
    try:
        yield pid, terminal
    finally:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        os.close(terminal)


def busy(command: list[str], variables: dict[str, str]) -> tuple[float, float]:
    """Percent of a core that a command on a terminal and its children use, and KB/s that it writes, its start left
    out."""
    with on_terminal(command, variables) as (pid, terminal):
        _drain(terminal, 6)
        parent = psutil.Process(pid)
        processes = [parent, *parent.children(recursive=True)]
        before, began = _spent(processes), time.monotonic()
        wrote = _drain(terminal, PEER_SECONDS)
        took = time.monotonic() - began
        return 100 * (_spent(processes) - before) / took, wrote / took / 1000


def leaving(command: list[str], variables: dict[str, str], state: StubState) -> float:
    """Seconds from `q` to the end of a command while a call to the driver hangs; PATIENCE_S when it is still there."""
    with on_terminal(command, variables) as (pid, terminal):
        _drain(terminal, 6)
        state.set({"delay.nvmlDeviceGetUtilizationRates 0": 60_000})
        _drain(terminal, 4)
        os.write(terminal, b"q")
        began = time.monotonic()
        while (took := time.monotonic() - began) < PATIENCE_S and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            _drain(terminal, 0.02)
    state.drop("delay.nvmlDeviceGetUtilizationRates 0")
    return took


def _drain(terminal: int, seconds: float) -> int:
    """Read for so long and answer what is asked; the bytes read."""
    end, read = time.monotonic() + seconds, 0
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            with contextlib.suppress(OSError):  # it has ended: there is nothing to measure then either
                data = os.read(terminal, 1 << 16)
                read += len(data)
                for question, answer in ANSWERS.items():
                    os.write(terminal, answer * data.count(question))
    return read


def _spent(processes: list[psutil.Process]) -> float:
    return sum(times.user + times.system for one in processes for times in [one.cpu_times()])


def measure() -> dict[str, float]:
    """Every figure, by name."""
    with tempfile.TemporaryDirectory(prefix="gt-") as name:
        root = Path(name)
        return soak(root) | in_a_crowd(root) | beside_peers(root)


def test_crowd() -> None:
    figures = measure()
    for name, value in figures.items():
        print(f"{name:60} {value:10.2f}")
    assert figures["soak: descriptors after a day of ticks"] == figures["soak: descriptors after 1,000 ticks"]
    assert figures["soak: MB after a day of ticks"] < figures["soak: MB after 1,000 ticks"] + 2


if __name__ == "__main__":
    for line, figure in measure().items():
        print(f"{line:60} {figure:10.2f}")
