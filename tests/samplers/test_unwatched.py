"""A training that nobody watches is named by its own process, never by a worker of it, and not at all in doubt."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import pytest

from gputop.records import Process
from gputop.samplers import proc, processes
from gputop.samplers.proc import Stat
from gputop.samplers.processes import Processes
from gputop.samplers.protocol import S, Targets
from gputop.samplers.unwatched import Unwatched

TRAIN = "python train.py"
SPAWNED = "python -c from multiprocessing.spawn import spawn_main; spawn_main() --multiprocessing-fork"
FORKSERVER = "python -c from multiprocessing.forkserver import main; main()"


class Machine:
    """Processes by pid: parent, command line, CPU ticks used at each scan."""

    def __init__(self, torch: set[int], **processes: tuple[int, str, int]) -> None:
        self.torch = torch
        self.lines = {int(name[1:]): one for name, one in processes.items()}
        self.scans = 0
        self.unwatched = Unwatched(lambda pid: "torch" if pid in self.torch else None)

    def _at(self, scan: int) -> dict[int, Stat]:
        return {
            pid: Stat(pid, "python", "R", ppid, scan * ticks, 0, 1, 100, 1)
            for pid, (ppid, _, ticks) in self.lines.items()
        }

    def found(self, ours: Collection[int] = ()) -> list[int]:
        """Which are named at the next scan."""
        self.scans += 1
        before, now = self._at(self.scans - 1), self._at(self.scans)
        busy = [stat for stat in now.values() if self.lines[stat.pid][2] >= 100 and stat.pid not in ours]
        told = self.unwatched.of(busy, now, before, ours, lambda one: self.lines[one.pid][1])
        assert all(framework == "torch" for _, framework in told)
        return [stat.pid for stat, _ in told]


def test_it_is_named_once_it_was_busy_at_two_scans() -> None:
    machine = Machine({42}, p42=(1, TRAIN, 300), p50=(1, "make", 300))
    assert [machine.found(), machine.found(), machine.found()] == [[], [42], [42]]
    assert machine.found(ours={42}) == []


@pytest.mark.parametrize(("worker", "between"), [(TRAIN, None), (SPAWNED, None), (FORKSERVER, FORKSERVER)])
def test_busy_workers_lead_to_the_process_that_started_them(worker: str, between: str | None) -> None:
    over = 43 if between else 42
    machine = Machine(
        {42, 44, 45}, p42=(1, TRAIN, 3), p43=(42, between or "cat", 0), p44=(over, worker, 300), p45=(over, worker, 300)
    )
    machine.found()
    assert machine.found() == [42]
    watched = Machine({42, 44}, p42=(1, TRAIN, 3), p44=(42, SPAWNED, 300))
    assert [watched.found(ours={42}) for _ in range(3)] == [[], [], []]


@pytest.mark.parametrize(
    "processes",
    [
        {"p42": (1, "python launch.py", 0), "p44": (42, SPAWNED, 300)},  # only waits: a launcher, or a starved training
        {"p42": (1, "python -m torch.distributed.run train.py", 300)},
        {"p44": (999, SPAWNED, 300)},  # its parent is not to be seen
        {"p44": (1, "python serve_without_torch.py", 300)},
        {"p42": (1, TRAIN, 50)},
    ],
)
def test_in_doubt_nothing_is_named(processes: dict[str, tuple[int, str, int]]) -> None:
    machine = Machine({42}, **processes)
    assert [machine.found() for _ in range(3)] == [[], [], []]


def test_a_rank_under_its_launcher_is_named_itself() -> None:
    machine = Machine({42, 43, 44}, p42=(1, "torchrun train.py", 300), p43=(42, "python -u train.py", 300))
    machine.found()
    assert machine.found() == [43]


CHILD = """
import mmap, sys
file = open(sys.argv[1], "r+b")
held = mmap.mmap(file.fileno(), 0)
while True:
    pass
"""


def test_a_real_process_with_torch_loaded_is_named_in_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "SCAN_NS", S // 20)
    monkeypatch.setattr(processes, "SCAN_SHARE", 0)
    library = tmp_path / "libtorch_python.so"
    library.write_bytes(b"x" * 4096)
    followed = Processes("box")
    with subprocess.Popen([sys.executable, "-c", CHILD, str(library)]) as child:
        monkeypatch.setattr(processes, "_all", lambda: {child.pid: proc.of(child.pid)})
        try:
            rows: list[Process] = []
            for turn in range(1, 200):
                ticks = sum(proc.of(child.pid)[4:6])
                while sum(proc.of(child.pid)[4:6]) < ticks + 2:
                    pass
                rows = [one for one in followed.sample(turn * S // 10) if isinstance(one, Process)]
                rows = [one for one in rows if one.pid == child.pid and one.framework]
                if rows:
                    break
            assert rows
            assert (rows[0].framework, rows[0].run_id, rows[0].start_ticks) == ("torch", None, proc.start(child.pid))
            followed.follow(Targets(pids={child.pid: "run"}))
            rows = [one for one in followed.sample(30 * S) if isinstance(one, Process) and one.framework]
            assert child.pid not in [one.pid for one in rows]
        finally:
            child.kill()
