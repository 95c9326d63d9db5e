"""Frames and the board: what goes between a sampler's child and its parent."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.records import Host, Sampler
from gputop.samplers.board import Board
from gputop.samplers.frames import MAX_FRAME_BYTES, Decoder, frame

RECORDS = [Host(t=1, host="a", cpu_pct=12.5), Sampler(t=2, host="a", backend="nvml", state="ok", self_ns=7)]


@given(st.lists(st.integers(1, 40)))
def test_frames_come_out_whole_however_the_pipe_cuts_them(cuts: list[int]) -> None:
    data = frame(RECORDS) + frame([]) + frame(RECORDS[:1])
    decoder, records, frames, at = Decoder(), [], 0, 0
    for cut in [*cuts, len(data)]:
        fed = decoder.feed(data[at : at + cut])
        records += fed.records
        frames += fed.frames
        at += cut
        assert (fed.faults, fed.corrupt) == (0, None)
    assert records == [*RECORDS, RECORDS[0]]
    assert frames == 3


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", (MAX_FRAME_BYTES + 1).to_bytes(4, "big"), b"\0\0\0\0", b"\0\0\0\1\xc0", b"Traceback"]
)
def test_what_is_no_frame_is_corrupt(data: bytes) -> None:
    fed = Decoder().feed(frame(RECORDS) + data)
    assert fed.records == RECORDS
    assert fed.corrupt


def test_a_bad_record_costs_itself_and_an_unknown_one_is_no_fault() -> None:
    payload = msgspec.msgpack.encode([{"type": "host", "t": "x"}, {"type": "aura", "t": 1}, RECORDS[0]])
    fed = Decoder().feed(len(payload).to_bytes(4, "big") + payload)
    assert fed == ([RECORDS[0]], 1, 1, None)


def test_the_board_names_the_call_and_its_age() -> None:
    now = [5_000]
    board = Board(Board.create().fd, clock=lambda: now[0])
    assert board.read() is None
    board.say("nvmlDeviceGetPowerUsage gpu 1")
    now[0] += 700
    assert board.read() == ("nvmlDeviceGetPowerUsage gpu 1", 700)
    board.say("x" * 1000)
    assert board.read() == ("x" * 247, 0)
    board.say("")
    assert board.read() is None
    board.close()
