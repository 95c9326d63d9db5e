"""A process in a container is the one here whose namespace, number in it and start time all agree; else none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gputop.samplers import namespaces, nvml_processes, proc
from gputop.wire import cards


@pytest.fixture
def contained() -> Iterator[int]:
    """The pid here of a process that is number 1 of a pid namespace of its own."""
    words = ["unshare", "--fork", "--pid", "--kill-child", "sh", "-c", "echo $$; exec sleep 60"]
    try:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except FileNotFoundError:
        pytest.skip("no unshare here")
    with child:
        assert child.stdout is not None
        if child.stdout.readline() != "1\n":
            pytest.skip("a pid namespace can't be made here")
        (inner,) = proc.children(child.pid)
        yield inner
        child.kill()


def inode(pid: int) -> int:
    return os.stat(f"/proc/{pid}/ns/pid").st_ino


def test_a_contained_process_is_found_by_its_namespace_and_its_number_in_it(contained: int) -> None:
    start = cards.process_start(contained)
    assert namespaces.inner_pid(contained) == 1
    assert namespaces.outer_pid(1, inode(contained), start) == contained
    assert namespaces.outer_pid(1, inode(contained), None) == contained


def test_where_one_of_them_differs_it_is_no_match(contained: int) -> None:
    start = cards.process_start(contained)
    assert start is not None
    assert namespaces.outer_pid(1, inode(contained), start + 1) is None
    assert namespaces.outer_pid(2, inode(contained), start) is None
    assert namespaces.outer_pid(contained, inode(contained), start) is None
    assert namespaces.outer_pid(1, 4242, start) is None


def test_a_process_that_vanishes_while_it_is_looked_for_is_passed_over() -> None:
    me = os.getpid()
    inner = namespaces.inner_pid(me)
    assert inner is not None
    assert namespaces.outer_pid(inner, inode(me), None, [4_194_301, me]) == me


def test_in_a_container_a_listed_number_that_means_a_process_without_a_gpu_is_not_that_process() -> None:
    me = os.getpid()
    assert proc.holds_gpu(me) is False
    rows = {doubtful: nvml_processes.Names(doubtful).of(me, 7) for doubtful in (True, False)}
    assert (rows[True].name, rows[True].start_ticks, rows[True].mem_bytes) == (None, None, 7)
    assert rows[False].name is not None
    for holds in (True, None):  # it has one open, or that is not ours to know: the driver translates
        named = nvml_processes.Names(True, lambda _pid, holds=holds: holds).of(me, 7)  # type: ignore[misc]
        assert named.start_ticks == proc.start(me)


def test_a_process_with_the_drivers_file_open_holds_a_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    device = tmp_path / "nvidiactl"
    device.touch()
    monkeypatch.setattr(proc, "GPU_DEVICES", (str(device),))
    with open(device):
        assert proc.holds_gpu(os.getpid()) is True
    assert proc.holds_gpu(2**22 + 1) is None
