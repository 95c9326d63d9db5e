"""Waits by the framework's sync debug mode: a stand-in for torch.cuda warns as CUDA's operators do in that mode."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gputop.publisher.hooks.waits import Waits


class Cuda:
    """What of torch.cuda is used, with operators that wait."""

    def __init__(self) -> None:
        self.mode = 0

    def get_sync_debug_mode(self) -> int:
        return self.mode

    def set_sync_debug_mode(self, mode: int) -> None:
        if mode:
            warnings.warn("Synchronization debug mode is a prototype feature", UserWarning, stacklevel=1)
        self.mode = mode

    def nonzero(self) -> None:
        if self.mode:
            warnings.warn("called a synchronizing CUDA operation (of a test)", UserWarning, stacklevel=2)

    def masked(self) -> None:
        if self.mode:
            warnings.warn("called a synchronizing CUDA operation", UserWarning, stacklevel=1)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What is shown to the user."""
    out: list[str] = []
    with warnings.catch_warnings():
        monkeypatch.setattr(warnings, "showwarning", lambda message, *_, **__: out.append(str(message)))
        yield out


@pytest.fixture
def cuda() -> Cuda:
    return Cuda()


def test_each_wait_is_counted_by_its_line_and_shown_to_nobody(cuda: Cuda, shown: list[str]) -> None:
    warnings.simplefilter("default")
    waits = Waits()
    assert waits.begin(cuda)
    for _ in range(3):
        cuda.nonzero()
    cuda.masked()
    warnings.warn("the script's own", UserWarning, stacklevel=1)
    waits.end()
    most, least = waits.sites()
    assert [most["count"], least["count"]] == [3, 1]
    assert {one["site"].split(":")[0] for one in (most, least)} == {"test_waits.py"}
    assert most["site"] != least["site"]
    assert shown == ["the script's own"]


@pytest.mark.parametrize("action", ["error", "ignore", "default"])
def test_whatever_the_script_does_with_warnings_none_is_raised_and_all_is_undone(
    cuda: Cuda, shown: list[str], action: Any
) -> None:
    warnings.simplefilter(action)
    before = list(warnings.filters), warnings.showwarning
    waits = Waits()
    assert waits.begin(cuda)
    cuda.nonzero()
    waits.end()
    assert [one["count"] for one in waits.sites()] == [1]
    assert (list(warnings.filters), warnings.showwarning, cuda.mode) == (*before, 0)
    cuda.nonzero()
    waits.end()
    assert [one["count"] for one in waits.sites()] == [1]
    assert shown == []


def test_a_mode_of_the_scripts_own_is_left_to_it(cuda: Cuda, shown: list[str]) -> None:
    cuda.mode = 1
    before = list(warnings.filters)
    waits = Waits()
    assert not waits.begin(cuda)
    waits.end()
    assert cuda.mode == 1
    assert list(warnings.filters) == before


def test_a_mode_that_the_script_has_set_meanwhile_stays(cuda: Cuda, shown: list[str]) -> None:
    waits = Waits()
    assert waits.begin(cuda)
    cuda.mode = 2
    waits.end()
    assert cuda.mode == 2


def test_what_the_script_takes_back_in_the_middle_is_taken_back(cuda: Cuda, shown: list[str]) -> None:
    waits = Waits()
    before = warnings.showwarning
    with warnings.catch_warnings():
        assert waits.begin(cuda)
    waits.end()
    assert warnings.showwarning is before
    assert cuda.mode == 0


def test_a_mode_that_can_not_be_set_leaves_nothing_behind(
    cuda: Cuda, shown: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(mode: int) -> None:
        raise RuntimeError("no such mode")

    monkeypatch.setattr(cuda, "set_sync_debug_mode", refuse)
    before = list(warnings.filters), warnings.showwarning
    with pytest.raises(RuntimeError, match="no such mode"):
        Waits().begin(cuda)
    assert (list(warnings.filters), warnings.showwarning) == before


def test_waits_of_other_threads_are_no_waits_of_the_loop(cuda: Cuda, shown: list[str]) -> None:
    waits = Waits()
    assert waits.begin(cuda)
    in_thread(cuda.nonzero)
    waits.end()
    assert waits.sites() == []
    assert shown == [], "nor are they shown: nobody has asked for them"


def in_thread(act: Callable[[], None]) -> None:
    thread = threading.Thread(target=act)
    thread.start()
    thread.join()
