"""The host's figures against /proc, and against what the test itself makes the machine do."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gputop.records import Disk, Host, Process
from gputop.samplers import cgroup, host_fields, proc
from gputop.samplers.host import MachineBackend
from gputop.samplers.host_fields import Machine
from gputop.samplers.protocol import S, Targets


def gather(machine: Machine, now_s: float) -> dict[str, Any]:
    machine.now_ns = int(now_s * S)
    machine.answers.gather(machine, machine.now_ns, lambda _call: None)
    return machine.answers.fields()


def test_the_fields_are_those_of_proc() -> None:
    machine = Machine()
    gather(machine, 100)
    figures = gather(machine, 101)
    meminfo = {
        line.split(":")[0]: int(line.split()[1]) * 1024 for line in Path("/proc/meminfo").read_text().splitlines()
    }
    assert figures["mem_total_bytes"] == meminfo["MemTotal"]
    assert abs(figures["mem_used_bytes"] - (meminfo["MemTotal"] - meminfo["MemAvailable"])) < 500 << 20
    assert figures["load1"] == pytest.approx(float(Path("/proc/loadavg").read_text().split()[0]), abs=0.5)
    assert figures["cores"] == len(figures["per_core_pct"]) if "per_core_pct" in figures else os.cpu_count()
    shm = os.statvfs("/dev/shm")
    assert figures["shm_total_bytes"] == shm.f_blocks * shm.f_frsize
    assert "failed" not in figures


def test_every_field_is_one_of_the_record_and_there_or_named() -> None:
    backend = MachineBackend(host="box")
    backend.sample(100 * S)
    deadline = time.monotonic() + 0.03
    while time.monotonic() < deadline:
        pass
    first = backend.sample(101 * S)[0]
    assert isinstance(first, Host)
    asked = {field for question in host_fields.questions() for field in question.fields}
    assert asked <= set(Host.__struct_fields__)
    absent = {field for field in asked if getattr(first, field) is None}
    # Slow questions have no rate yet, an idle disk has no mean wait, and no quota is no figure.
    assert absent - {*(first.unsupported or ())} <= {"swap_in_bytes_s", "disk_await_ns", "cpu_quota_cores", "cpu_pct"}


def cpu(**ticks: float) -> Any:
    names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
    values = {name: ticks.get(name, 0.0) for name in names}
    return SimpleNamespace(_fields=names, **values)


def test_shares_of_cpu_time_leave_guests_out_and_never_go_below_nothing() -> None:
    shares = host_fields._busy(cpu(user=30, guest=30, idle=60, iowait=9, steal=10), cpu(iowait=10))
    assert shares is not None
    assert (shares["user"], shares["idle"], shares["iowait"], shares["steal"]) == (30, 60, 0, 10)
    assert host_fields._busy(cpu(idle=5), cpu(idle=5)) is None


def counters(**figures: int) -> SimpleNamespace:
    names = ("read_count", "write_count", "read_bytes", "write_bytes", "read_time", "write_time", "busy_time")
    return SimpleNamespace(**{name: figures.get(name, 0) for name in names})


def test_disks_are_summed_and_the_busiest_one_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    disks: dict[str, SimpleNamespace] = {"sda": counters(), "sdb": counters(), "sda1": counters(), "dm-0": counters()}
    monkeypatch.setattr(host_fields.psutil, "disk_io_counters", lambda perdisk, nowrap: disks)
    monkeypatch.setattr(host_fields, "_physical_disk", lambda name: name in ("sda", "sdb"))
    machine = Machine()
    machine.now_ns = 10 * S
    assert host_fields._disk(machine) == {}
    for name in disks:
        disks[name] = counters(read_bytes=4_000_000, read_count=10, read_time=300, busy_time=1500)
    disks["sdb"] = counters(write_bytes=1000, write_count=10, write_time=100, busy_time=100)
    machine.now_ns = 12 * S
    assert host_fields._disk(machine) == {
        "disk_read_bytes_s": 2_000_000, "disk_write_bytes_s": 500, "disk_busy_pct": 75.0, "disk_await_ns": 20_000_000,
        "disks": [
            Disk(name="sda", busy_pct=75.0, await_ns=30_000_000, read_bytes_s=2_000_000, write_bytes_s=0),
            Disk(name="sdb", busy_pct=5.0, await_ns=10_000_000, read_bytes_s=0, write_bytes_s=500),
        ],
    }  # fmt: skip
    machine.now_ns = 14 * S
    disks["sdb"] = counters()
    quiet = host_fields._disk(machine)
    assert (quiet["disks"], quiet["disk_busy_pct"], quiet["disk_await_ns"]) == ([], 0.0, None)


def test_of_many_disks_the_busiest_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    disks = {f"sd{letter}": counters() for letter in "abcdefghijklmnop"}
    monkeypatch.setattr(host_fields.psutil, "disk_io_counters", lambda perdisk, nowrap: disks)
    monkeypatch.setattr(host_fields, "_physical_disk", lambda _name: True)
    machine = Machine()
    machine.now_ns = S
    host_fields._disk(machine)
    disks.update({name: counters(read_count=1, busy_time=10 * at) for at, name in enumerate(disks)})
    machine.now_ns = 2 * S
    assert [disk.name for disk in host_fields._disk(machine)["disks"]] == [f"sd{letter}" for letter in "ponmlkji"]


def test_without_sys_a_whole_disk_is_known_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_fields.os.path, "isdir", lambda _path: False)
    host_fields._physical_disk.cache_clear()
    names = ("sda", "sda1", "nvme0n1", "nvme0n1p2", "vdb", "dm-0", "mmcblk0", "mmcblk0p1", "loop7")
    assert [name for name in names if host_fields._physical_disk(name)] == ["sda", "nvme0n1", "vdb", "mmcblk0"]
    host_fields._physical_disk.cache_clear()


def test_partitions_and_stacked_devices_are_no_disks() -> None:
    assert not host_fields._physical_disk("loop0")
    assert not host_fields._physical_disk("dm-0")
    assert not host_fields._physical_disk("sda1")


def test_a_field_that_the_system_lacks_is_unsupported_and_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(path: str, size: int = 4096) -> bytes:
        if "pressure" in path:
            raise FileNotFoundError(path)
        raise PermissionError(path)

    monkeypatch.setattr(host_fields.proc, "read", lacking)
    figures = gather(Machine(), 5)
    assert {"psi_cpu_pct", "psi_io_pct", "psi_mem_pct"} <= set(figures["unsupported"])
    assert {"swap_used_bytes"} <= set(figures["failed"])
    assert figures["mem_total_bytes"] > 0


def test_pressure_is_the_share_of_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    total = [1_000_000]
    monkeypatch.setattr(
        host_fields.proc, "read", lambda path, size: b"some avg10=9 avg60=9 avg300=9 total=%d\n" % total[0]
    )
    machine, ask = Machine(), host_fields._pressure("io")
    machine.now_ns = 10 * S
    assert ask(machine) == {}
    total[0] += 500_000
    machine.now_ns = 12 * S
    assert ask(machine) == {"psi_io_pct": 25.0}


class TestCgroup:
    """Limits of control groups, on a tree that the test writes."""

    @staticmethod
    def v2(top: Path, path: str, quota: str, throttled_us: int = 0) -> None:
        folder = top / path
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cpu.max").write_text(quota + "\n")
        (folder / "cpu.stat").write_text(f"usage_usec 5\nthrottled_usec {throttled_us}\n")

    def test_version_2_takes_the_tightest_limit_up_the_tree(self, tmp_path: Path) -> None:
        self.v2(tmp_path, "", "max 100000")
        self.v2(tmp_path, "job", "350000 100000", throttled_us=7)
        self.v2(tmp_path, "job/step", "max 100000")
        mounted = cgroup.mounts(f"30 1 0:26 / {tmp_path} rw,nosuid - cgroup2 cgroup2 rw\n")
        assert cgroup.limit(cgroup.groups(mounted, "0::/job/step\n")) == (3.5, 7000)

    def test_version_1_counts_in_nanoseconds_and_in_the_containers_own_root(self, tmp_path: Path) -> None:
        (tmp_path / "cpu.cfs_quota_us").write_text("150000\n")
        (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
        (tmp_path / "cpu.stat").write_text("nr_periods 1\nthrottled_time 99\n")
        mounted = cgroup.mounts(
            f"31 1 0:27 /docker/abc {tmp_path} rw - cgroup cgroup rw,cpu,cpuacct\n"
            "32 1 0:28 / /elsewhere rw - cgroup cgroup rw,memory\n"
        )
        found = cgroup.groups(mounted, "5:memory:/docker/abc\n4:cpu,cpuacct:/docker/abc\n")
        assert cgroup.limit(found) == (1.5, 99)

    def test_unlimited_is_no_figure(self, tmp_path: Path) -> None:
        self.v2(tmp_path, "job", "max 100000", throttled_us=3)
        mounted = cgroup.mounts(f"30 1 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
        assert cgroup.limit(cgroup.groups(mounted, "0::/job\n")) == (None, 3000)

    def test_a_group_that_another_namespaces_mount_does_not_show_is_not_guessed(self, tmp_path: Path) -> None:
        (tmp_path / "cpu.max").write_text("50000 100000")
        above = cgroup.mounts(f"30 1 0:26 /.. {tmp_path} rw - cgroup2 cgroup2 rw\n")
        own = cgroup.mounts(f"30 1 0:26 / {tmp_path} rw - cgroup2 cgroup2 rw\n")
        assert cgroup.limit(cgroup.groups(above, "0::/\n")) == (None, None)
        assert cgroup.limit(cgroup.groups(own, "0::/../job\n")) == (None, None)
        assert cgroup.limit(cgroup.groups(own, "0::/\n")).quota_cores == 0.5

    def test_this_process_has_an_answer(self) -> None:
        assert cgroup.of("self").quota_cores is None or cgroup.of("self").quota_cores


def test_the_backend_follows_what_it_is_told() -> None:
    backend = MachineBackend(host="box")
    assert not [record for record in backend.sample(S) if isinstance(record, Process) and record.run_id]
    backend.follow(Targets(pids={os.getpid(): "mine"}, cmdline=False))
    (followed,) = [record for record in backend.sample(2 * S) if isinstance(record, Process) and record.run_id]
    assert (followed.run_id, followed.cmdline, followed.name) == ("mine", None, proc.of(os.getpid()).name)


def test_a_kernel_that_keeps_no_vmstat_costs_one_figure_and_no_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    real = open

    def refused(path: object, *args: object, **more: object) -> object:
        if str(path) == "/proc/vmstat":
            raise FileNotFoundError(path)
        return real(path, *args, **more)  # type: ignore[call-overload]

    monkeypatch.setattr("builtins.open", refused)
    monkeypatch.setattr(proc, "read", lambda path, size=4096: b"")
    machine = Machine()
    machine.now_ns = S
    machine.answers.gather(machine, S, lambda _call: None)
    assert "swap_in_bytes_s" in machine.answers.unsupported
    assert machine.answers.values["swap_used_bytes"] >= 0


BARE = """
import os
from gputop.records import Host
from gputop.samplers.host import MachineBackend
from gputop.samplers.protocol import Targets
backend = MachineBackend(host="box")
backend.follow(Targets(pids={os.getpid(): "run"}))
for second in (1, 7):
    (row,) = backend.sample(second * 10**9)
assert isinstance(row, Host), row
print(*row.unsupported, "|", *(row.failed or ()))
"""


def test_where_there_is_no_proc_at_all_nothing_breaks_and_what_is_missing_is_named() -> None:
    words = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs none /proc && exec "$@"',
        "-",
        sys.executable,
        "-c",
        BARE,
    ]
    try:
        ran = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    if "unshare" in ran.stderr or "mount:" in ran.stderr:
        pytest.skip("a mount namespace can't be made here")
    assert ran.stderr == ""
    unsupported, _, failed = ran.stdout.partition("|")
    assert {"cpu_pct", "mem_total_bytes", "psi_io_pct", "swap_used_bytes", "net_recv_bytes_s"} <= {*unsupported.split()}
    assert failed.strip() == ""
