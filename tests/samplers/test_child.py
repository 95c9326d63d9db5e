"""Real children over real pipes: what only a process can show."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.records import AnyRecord, Gpu, Host, Process, Record, Sampler
from gputop.samplers.child import Inbox, Loop, Told, retarget
from gputop.samplers.protocol import Targets
from gputop.samplers.spawn import Spawned, command
from gputop.samplers.supervisor import Supervisor
from tests.nvml_stub import StubState, env

S = 1_000_000_000


def gather(supervisor: Supervisor, until: type | str, timeout_s: float = 60) -> list[AnyRecord]:
    """The records up to the first of a type, or the first sampler record in a state."""
    records: list[AnyRecord] = []
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        fd = supervisor.fileno()
        select.select([fd] if fd >= 0 else [], [], [], 0.05)
        records += supervisor.read()
        records += supervisor.tick(time.time_ns())
        if any(
            isinstance(record, until) if isinstance(until, type) else getattr(record, "state", None) == until
            for record in records
        ):
            return records
    raise AssertionError(f"no {until} in {timeout_s} s: {records}")


@pytest.fixture
def opened() -> Iterator[list[Supervisor]]:
    """Supervisors to be closed at the end."""
    supervisors: list[Supervisor] = []
    yield supervisors
    for supervisor in supervisors:
        supervisor.close()


def alive(pid: int) -> bool:
    """Whether it runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, timeout_s: float = 60) -> bool:
    deadline = time.monotonic() + timeout_s
    while alive(pid) and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    return not alive(pid)


def test_gpu_records_come_from_the_library(opened: list[Supervisor], nvml_dir: Path, tmp_path: Path) -> None:
    state = StubState(tmp_path / "gpus").set({"0.util": 63, "1.util": 4}, devices=2)
    supervisor = Supervisor("gpu", host="box", env=env(nvml_dir, state)).start()
    opened.append(supervisor)
    records = gather(supervisor, Gpu)
    assert [record.util_pct for record in records if isinstance(record, Gpu)][:2] == [63, 4]


@pytest.mark.parametrize("claimed", [100_000_000, 2_000_000_000, 0xFFFFFFFF])
def test_a_driver_that_claims_a_huge_list_costs_that_list_alone(
    opened: list[Supervisor], nvml_dir: Path, tmp_path: Path, claimed: int
) -> None:
    state = StubState(tmp_path / "gpus").set({"0.util": 63, "0.procs_claimed": claimed, "1.util": 4}, devices=2)
    supervisor = Supervisor("gpu", host="box", env=env(nvml_dir, state)).start()
    opened.append(supervisor)
    rows = [record for record in gather(supervisor, Gpu) if isinstance(record, Gpu)]
    assert [(row.util_pct, row.processes, row.failed) for row in rows[:2]] == [(63, None, ["processes"]), (4, [], None)]
    assert supervisor.pid is not None
    assert int(Path(f"/proc/{supervisor.pid}/statm").read_text().split()[1]) * 4096 < 200 << 20


def test_host_and_process_records_and_the_trace_clock(opened: list[Supervisor]) -> None:
    offset = time.time_ns() - time.monotonic_ns() + 3600 * S
    supervisor = Supervisor("host", host="box", offset_ns=offset, interval_s=0.2).start()
    opened.append(supervisor)
    supervisor.tell({"pids": {os.getpid(): "run-1"}})
    records = gather(supervisor, Process)
    host = next(record for record in records if isinstance(record, Host))
    assert host.cores == os.cpu_count()
    assert abs(host.t - (offset + time.monotonic_ns())) < 10 * S
    process = next(record for record in records if isinstance(record, Process))
    assert (process.pid, process.run_id) == (os.getpid(), "run-1")


def test_a_hung_driver_is_named_while_closing_stays_immediate(
    opened: list[Supervisor], nvml_dir: Path, tmp_path: Path
) -> None:
    state = StubState(tmp_path / "gpus").set(devices=2)
    supervisor = Supervisor("gpu", host="box", env=env(nvml_dir, state), interval_s=0.2).start()
    opened.append(supervisor)
    gather(supervisor, Gpu)
    state.set({"delay.nvmlDeviceGetPowerUsage 1": 60_000})
    records = gather(supervisor, "silent")
    silent = next(record for record in records if isinstance(record, Sampler) and record.state == "silent")
    assert silent.call == "nvmlDeviceGetPowerUsage gpu 1"
    pid = supervisor.pid
    assert pid is not None
    began = time.perf_counter()
    supervisor.close()
    assert time.perf_counter() - began < 2, "the call takes a minute"
    assert gone(pid)


def test_a_slow_driver_is_asked_less_often_and_never_counted_as_silent(
    opened: list[Supervisor], nvml_dir: Path, tmp_path: Path
) -> None:
    state = StubState(tmp_path / "gpus").set({"delay.nvmlDeviceGetPowerUsage 0": 600})
    supervisor = Supervisor("gpu", host="box", env=env(nvml_dir, state), interval_s=0.1).start()
    opened.append(supervisor)
    records = gather(supervisor, "slow")
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline:
        select.select([supervisor.fileno()], [], [], 0.1)
        records += supervisor.read()
        records += supervisor.tick(time.time_ns())
    assert {record.state for record in records if isinstance(record, Sampler)} == {"slow"}
    assert len([record for record in records if isinstance(record, Gpu)]) == 1


def test_a_sampler_tells_what_it_costs_and_how_often_it_asks() -> None:
    class Clock:
        now = 0

        def __call__(self) -> int:
            return self.now

    clock = Clock()
    loop = Loop(Idle(), Inbox(0, os.getppid()), lambda _data: None, host="h", interval_s=1, clock=clock)
    (first,) = loop._own(10 * S, 3_000_000)
    assert isinstance(first, Sampler)
    assert (first.state, first.self_ns, first.every_ns, first.cpu_pct) == ("ok", 3_000_000, S, None)
    assert loop._own(11 * S, 3_000_000) == []
    (second,) = loop._own(15 * S, 400_000_000)
    assert isinstance(second, Sampler)
    assert (second.self_ns, second.every_ns) == (400_000_000, 4 * S)
    assert 0 <= (second.cpu_pct or 0.0) < 10
    (slow,) = loop._own(16 * S, 3 * S)
    assert isinstance(slow, Sampler)
    assert (slow.state, slow.every_ns) == ("slow", 10 * S)


class Idle:
    """A backend that has nothing."""

    name = "idle"

    def open(self) -> None: ...
    def close(self) -> None: ...
    def sample(self, now_ns: int) -> list[Record]:
        return []


def test_the_end_of_stdin_ends_the_child() -> None:
    child = Spawned(command("host", interval_s=5))
    deadline = time.monotonic() + 60
    while child.read(1 << 16) is None and time.monotonic() < deadline:
        select.select([child.fd], [], [], 1)
    child._stdin.close()
    while child.poll() is None and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    assert child.poll() == 0
    child.release()


def test_a_killed_parent_takes_even_a_hung_child_with_it(nvml_dir: Path, tmp_path: Path) -> None:
    state = StubState(tmp_path / "gpus").set({"delay.nvmlInitWithFlags *": 60_000})
    code = (
        "import sys, time; from gputop.samplers.supervisor import Supervisor\n"
        "s = Supervisor('gpu', host='h').start(); print(s.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, env=env(nvml_dir, state))
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    deadline = time.monotonic() + 60
    while b"nvml" not in Path(f"/proc/{pid}/maps").read_bytes() and time.monotonic() < deadline:
        select.select([], [], [], 0.01)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert gone(pid)


@pytest.mark.parametrize("killed", ["supervisor", "parent"])
def test_a_child_that_is_stopped_is_left_behind_by_nobody(killed: str) -> None:
    code = (
        "import sys; from gputop.samplers.supervisor import Supervisor\n"
        "s = Supervisor('host', host='h').start(); print(s.pid, flush=True); sys.stdin.readline(); s.close()\n"
        "print('closed', flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        pid = int(parent.stdout.readline())
        select.select([], [], [], 0.3 if killed == "parent" else 0)  # until it has asked to die with its parent
        os.kill(pid, signal.SIGSTOP)
        if killed == "parent":
            parent.kill()
        else:
            parent.stdin.write("\n")
            parent.stdin.flush()
            assert parent.stdout.readline() == "closed\n"  # at once: it waits for nothing
        assert gone(pid)
        parent.kill()


def test_a_child_killed_from_outside_is_restarted(opened: list[Supervisor]) -> None:
    supervisor = Supervisor("host", host="box", interval_s=0.2).start()
    opened.append(supervisor)
    gather(supervisor, Host)
    pid = supervisor.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    records = gather(supervisor, "restarted")
    why = next(record.why for record in records if isinstance(record, Sampler) and record.state == "restarted")
    assert "-9" in (why or "")
    gather(supervisor, Host)
    assert supervisor.pid != pid


def test_children_are_in_a_session_of_their_own_and_light(opened: list[Supervisor]) -> None:
    code = (
        "import sys; import gputop.samplers.child, gputop.samplers.nvml, gputop.samplers.host\n"
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'textual', 'rich', 'zmq', 'click', 'torch'}))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
    supervisor = Supervisor("host", host="box").start()
    opened.append(supervisor)
    assert supervisor.pid is not None
    assert os.getsid(supervisor.pid) == supervisor.pid != os.getsid(0)


def test_nothing_that_lies_in_the_working_folder_is_imported(
    opened: list[Supervisor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "psutil.py").write_text("raise SystemExit('the wrong psutil')\n")
    monkeypatch.chdir(tmp_path)
    supervisor = Supervisor("host", host="box").start()
    opened.append(supervisor)
    gather(supervisor, Host)


def test_a_backend_that_cant_be_loaded_says_so(opened: list[Supervisor]) -> None:
    supervisor = Supervisor("gpu", host="box", backend="abacus").start()
    opened.append(supervisor)
    records = gather(supervisor, "absent")
    (said,) = [record for record in records if isinstance(record, Sampler) and record.state == "absent"]
    assert "'abacus'" in (said.why or "")


def test_many_restarts_leave_no_descriptor_and_no_process_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    pids = []
    for _ in range(5):
        supervisor = Supervisor("host", host="box").start()
        assert supervisor.pid is not None
        pids.append(supervisor.pid)
        supervisor.close()
    assert all(gone(pid) for pid in pids)
    assert len(os.listdir("/proc/self/fd")) == before
    for pid in pids:
        with contextlib.suppress(OSError):
            assert os.readlink(f"/proc/{pid}/exe") != sys.executable


def test_what_is_told_changes_only_what_it_names() -> None:
    first = retarget(Targets(), Told(pids={"7": "run", "x": "bad"}, workers={"7": [8, 9]}))
    assert first == Targets(pids={7: "run"}, workers={7: (8, 9)})
    assert retarget(first, Told(cmdline=False)) == Targets(pids={7: "run"}, workers={7: (8, 9)}, cmdline=False)
