"""Processes: real ones that work, read, fork, vanish; and a made-up /proc where the case can't be made to happen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gputop.records import Process
from gputop.samplers import proc, processes
from gputop.samplers.proc import Stat
from gputop.samplers.processes import Processes, Sample, heaviest, rates
from gputop.samplers.protocol import S, Targets

WORKERS = """
import multiprocessing as mp, sys, time
def spin():
    parent = mp.parent_process()
    while parent.is_alive():
        end = time.monotonic() + 0.2
        while time.monotonic() < end: pass
def main():
    context = mp.get_context(sys.argv[1])
    workers = [context.Process(target=spin, daemon=True) for _ in range(2)]
    for worker in workers: worker.start()
    print(*[worker.pid for worker in workers], flush=True)
    sys.stdin.read()
if __name__ == "__main__":
    main()
"""


def stat(pid: int, *, ticks: int = 0, start: int = 1, ppid: int = 1, name: str = "p") -> Stat:
    return Stat(pid, name, "R", ppid, ticks, 0, 1, start, 4096)


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        process.kill()
        process.wait()


def only(followed: Processes, now_s: float) -> Process:
    (row,) = [row for row in followed.sample(int(now_s * S)) if isinstance(row, Process) and row.run_id]
    return row


def spin_until(pid: int, ticks: int) -> None:
    """Wait until the process has used this many more ticks: time by the machine's own account, not by the clock."""
    began, deadline = sum(proc.of(pid)[4:6]), time.monotonic() + 60
    while sum(proc.of(pid)[4:6]) - began < ticks and time.monotonic() < deadline:
        os.sched_yield()


def test_figures_are_those_of_proc() -> None:
    followed = Processes("box")
    followed.follow(Targets(pids={os.getpid(): "mine"}))
    row = only(followed, 1)
    status = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":\t" in line)
    assert row.threads == int(status["Threads"])
    assert row.rss_bytes == pytest.approx(int(status["VmRSS"].split()[0]) * 1024, rel=0.2)
    assert row.cores_allowed == len(os.sched_getaffinity(0))
    assert row.cpu_pct is None
    assert "pytest" in (row.cmdline or "")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_are_found_however_they_were_started(method: str, tmp_path: object) -> None:
    script = os.path.join(str(tmp_path), "loop.py")
    with open(script, "w", encoding="utf-8") as file:
        file.write(WORKERS)
    with running(script, method) as training:
        assert training.stdout is not None
        pids = [int(pid) for pid in training.stdout.readline().split()]
        followed = Processes("box")
        followed.follow(Targets(pids={training.pid: "run"}))
        for pid in pids:
            # A spawned one is another program until it has been executed.
            spin_until(pid, 3)
        only(followed, 1)
        spin_until(pids[0], 5)
        workers = only(followed, 2).workers or []
        assert [worker.pid for worker in workers] == pids
        assert (workers[0].cpu_pct or 0) >= 5
        assert (workers[0].rss_bytes or 0) > 1 << 20


def test_workers_that_the_publisher_names_are_taken_as_they_are() -> None:
    with running("-c", "input()") as worker:
        followed = Processes("box")
        followed.follow(Targets(pids={os.getpid(): "run"}, workers={os.getpid(): (worker.pid, proc_gone())}))
        assert [one.pid for one in only(followed, 1).workers or []] == [worker.pid]


def test_workers_that_were_named_and_are_all_gone_are_looked_for_anew() -> None:
    with running("-c", "input()") as worker:
        followed = Processes("box")
        followed.follow(Targets(pids={os.getpid(): "run"}, workers={os.getpid(): (proc_gone(),)}))
        assert worker.pid in [one.pid for one in only(followed, 1).workers or []]


def test_a_named_workers_number_that_is_a_strangers_by_now_is_left_out() -> None:
    with running("-c", "input()") as worker:
        followed = Processes("box")
        followed.follow(Targets(pids={os.getpid(): "run"}, workers={os.getpid(): (worker.pid, os.getppid())}))
        assert [one.pid for one in only(followed, 1).workers or []] == [worker.pid]


def proc_gone() -> int:
    """The pid of a process that has just ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_bytes_read_are_counted_with_the_page_cache(tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "data")
    with open(path, "wb") as file:
        file.write(b"x" * 1_000_000)
    followed = Processes("box")
    followed.follow(Targets(pids={os.getpid(): "mine"}))
    only(followed, 1)
    with open(path, "rb") as file:
        file.read()
    assert (only(followed, 2).rchar_bytes_s or 0) >= 1_000_000


READER = """
import sys
sys.stdin.readline()
with open(sys.argv[1], "rb") as file:
    file.read()
print("read", flush=True)
sys.stdin.readline()
"""


def test_what_each_worker_reads_is_counted_with_the_page_cache(tmp_path: object) -> None:
    path = os.path.join(str(tmp_path), "data")
    with open(path, "wb") as file:
        file.write(b"x" * 1_000_000)
    line = [sys.executable, "-c", READER, path]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdin is not None
        assert worker.stdout is not None
        followed = Processes("box")
        followed.follow(Targets(pids={os.getpid(): "mine"}, workers={os.getpid(): (worker.pid,)}))
        only(followed, 1)
        worker.stdin.write("go\n")
        worker.stdin.flush()
        worker.stdout.readline()
        (row,) = only(followed, 2).workers or ()
        worker.communicate("end\n")
    assert (row.rchar_bytes_s or 0) >= 1_000_000
    assert row.read_bytes_s is not None
    assert row.read_bytes_s < 1_000_000  # it was written a moment ago


def test_a_process_that_has_ended_is_left_out() -> None:
    followed = Processes("box")
    followed.follow(Targets(pids={proc_gone(): "old", os.getpid(): "mine"}))
    assert only(followed, 1).run_id == "mine"


def test_processes_may_vanish_between_any_two_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    followed = Processes("box")
    followed.follow(Targets(pids={os.getpid(): "mine"}))
    real = proc.read
    for survived in range(12):
        left = [survived]

        def read(path: str, size: int = 4096, left: list[int] = left) -> bytes:
            left[0] -= 1
            if left[0] < 0:
                raise FileNotFoundError(path)
            return real(path, size)

        monkeypatch.setattr(proc, "read", read)
        followed.sample((survived + 1) * 10 * S)


SHORT_LIVED = """
import os, sys, time
print(flush=True)
for line in sys.stdin:
    child = os.fork()
    if not child:
        end = time.process_time() + 0.15
        while time.process_time() < end: pass
        os._exit(0)
    os.waitpid(child, 0)
    print(flush=True)
"""


def test_children_that_live_and_end_between_two_samples_count_as_their_parents_time() -> None:
    with running("-c", SHORT_LIVED) as training:
        assert training.stdout is not None
        assert training.stdin is not None
        training.stdout.readline()
        followed = Processes("box")
        followed.follow(Targets(pids={training.pid: "run"}))
        only(followed, 1)
        training.stdin.write("go\n")
        training.stdin.flush()
        training.stdout.readline()
        row = only(followed, 2)
        assert row.tree_cpu_pct is not None
        assert row.cpu_pct is not None
        assert 14 <= row.tree_cpu_pct - row.cpu_pct <= 25
        assert not row.workers
        assert only(followed, 3).tree_cpu_pct == only(followed, 4).tree_cpu_pct == 0


def test_a_reused_pid_has_no_rates() -> None:
    before = Sample(1 * S, stat(7, ticks=500), 500, 10**9, (100, 100))
    assert rates(before, Sample(2 * S, stat(7, ticks=510, start=2), 510, 10**9, (200, 200))).cpu_pct is None
    rate = rates(before, Sample(3 * S, stat(7, ticks=600), 550, 15 * 10**8, (300, 500)))
    assert (rate.cpu_pct, rate.main_pct, rate.read_bytes_s, rate.rchar_bytes_s) == (50, 25, 100, 200)


def test_counters_that_may_not_be_read_are_unknown() -> None:
    rate = rates(Sample(1 * S, stat(7), None, None, None), Sample(2 * S, stat(7, ticks=10), None, None, None))
    assert (rate.cpu_pct, rate.main_pct, rate.read_bytes_s) == (10, None, None)


def test_the_heaviest_others_are_named_and_ours_are_left_out() -> None:
    before = {pid: stat(pid) for pid in range(1, 9)}
    now = {pid: stat(pid, ticks=pid * 50) for pid in range(1, 9)}
    now[8] = stat(8, ticks=9999, start=2)
    found = heaviest(before, now, 5 * S, leave_out={7})
    assert [(one.pid, pct) for one, pct in found] == [(6, 60), (5, 50), (4, 40), (3, 30), (2, 20)]


def test_a_runs_own_workers_are_no_others_in_the_tick_in_which_it_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    run, server, worker, stranger = 4_000_001, 4_000_002, 4_000_003, 4_000_004
    parents = {run: 1, server: run, worker: server, stranger: 1}
    scans = iter([{pid: stat(pid, ticks=ticks, ppid=of) for pid, of in parents.items()} for ticks in (0, 300)])
    monkeypatch.setattr(processes, "_all", lambda: next(scans))
    followed = Processes("box")
    followed.sample(1 * S)
    followed.follow(Targets(pids={run: "r"}))
    assert [row.pid for row in followed.sample(2 * S) if isinstance(row, Process)] == [stranger]


def test_a_costly_scan_is_not_repeated_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[int] = []
    followed = Processes("box")
    monkeypatch.setattr(processes, "_all", lambda: scans.append(1) or {})
    for second in range(30):
        followed.sample((second + 1) * S)
        followed.spent(S // 5, (second + 1) * S)
    assert len(scans) == 3


def test_any_name_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    tail = b"S 42 1 1 0 -1 4194560 1 0 0 0 11 22 0 0 20 0 5 0 777 1000 3 18446744073709551615 1 1 0 0"
    for name, shown in {b"a) R 1 (b": "a) R 1 (b", b"\xff\x1b[2J": "\ufffd\\x1b[2J", b"": ""}.items():
        monkeypatch.setattr(proc, "read", lambda path, size, name=name: b"9 (" + name + b") " + tail)
        got = proc.of(9)
        assert (got.name, got.state, got.ppid, got.threads, got.start) == (shown, "S", 42, 5, 777)
        assert (got.user_ticks, got.system_ticks, got.rss_bytes) == (11, 22, 3 * proc.PAGE_BYTES)


def test_a_command_line_of_any_bytes_is_shown_as_text() -> None:
    odd = [b"sl\xffeep\x1b[2J", b"60"]
    with subprocess.Popen(odd, executable=shutil.which("sleep")) as process:
        while not (line := proc.cmdline(process.pid) or "").startswith("sl"):
            pass  # until it has been executed
        process.kill()
    assert line == "sl\ufffdeep\\x1b[2J 60"


def test_an_owner_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr(proc.pwd, "getpwuid", unknown)
    assert proc.user(os.getpid()) == str(os.getuid())
    assert proc.user(proc_gone()) is None
