"""A process in a container is the one here whose namespace, number in it and start time all agree; else none."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from gputop.samplers import namespaces, proc
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
