"""py-spy's trace read back: stretches of time with the stack of each."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gputop.samplers.attach import stacks
from gputop.samplers.attach.stacks import Frame, Stretch

RECORDED = Path(__file__).parent / "recorded"


def event(ph: str, ts: int, name: str, line: int = 0, tid: int = 1) -> dict[str, object]:
    return {"ph": ph, "ts": ts, "name": name, "tid": tid, "args": {"filename": "/code/a.py", "line": line}}


def test_a_stack_lasts_until_it_changes() -> None:
    data = [
        event("B", 100, "thread (7): MainThread"), event("B", 100, "main", 1), event("B", 100, "f", 2),
        event("E", 300, "f", 2), event("B", 300, "g", 3),
        event("E", 400, "g", 3), event("E", 400, "main", 1), event("E", 400, "thread (7): MainThread"),
    ]  # fmt: skip
    (thread,) = stacks.read(json.dumps(data).encode())
    main = Frame("main", "/code/a.py", 1)
    assert (thread.os_id, thread.name) == (7, "MainThread")
    assert thread.stretches == [
        Stretch(100_000, 300_000, (main, Frame("f", "/code/a.py", 2))),
        Stretch(300_000, 400_000, (main, Frame("g", "/code/a.py", 3))),
    ]


def test_a_thread_of_an_older_python_has_no_number_and_is_known_by_its_name() -> None:
    name = "thread (0x7F64ABCDEF80): MainThread"
    data = [event("B", 100, name), event("B", 100, "main", 1), event("E", 300, "main", 1), event("E", 300, name)]
    (thread,) = stacks.read(json.dumps(data).encode())
    assert (thread.os_id, thread.name) == (None, "MainThread")
    assert thread.stretches == [Stretch(100_000, 300_000, (Frame("main", "/code/a.py", 1),))]
    assert stacks.main_thread([thread], 7) is thread


@pytest.mark.parametrize("data", [b"", b"{", b"3", b'{"traceEvents": 3}'])
def test_what_is_no_trace_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".*"):
        stacks.read(data)


def test_the_main_thread_is_known_by_its_id_or_its_name() -> None:
    other, main = stacks.Thread(8, "MainThread", []), stacks.Thread(7, "renamed", [])
    assert stacks.main_thread([other, main], 7) is main
    assert stacks.main_thread([main, other], 99) is other
    assert stacks.main_thread([main], 99) is None


def test_a_real_trace_is_read_whole() -> None:
    threads = stacks.read((RECORDED / "workers.json").read_bytes())
    main = stacks.main_thread(threads, 4242)
    assert main is not None
    assert len(threads) == 3
    assert all(before.to_ns == after.from_ns for before, after in zip(main.stretches, main.stretches[1:], strict=False))
    assert 1.8e9 < main.stretches[-1].to_ns - main.stretches[0].from_ns < 2.5e9
    assert {one.frames[0].name for one in main.stretches} == {"<module>"}
