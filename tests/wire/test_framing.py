"""Frames: envelopes bounded in bytes and records, hostile ones refused with a sentence."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop import records as r
from gputop.codec import pack, unpack_many
from gputop.wire import framing

STEP = r.Step(t=10, run_id="a", n=1, dur_ns=5, phases_ns={"data": 3})


@given(st.integers(0, 70_000))
def test_an_array_of_encoded_records_is_msgpack(count: int) -> None:
    data = framing.array([b"\x01"] * count)
    assert len(msgspec.msgpack.decode(data)) == count


def test_an_envelope_opens_as_it_was_sealed() -> None:
    payload = framing.array([pack(STEP), pack(STEP)])
    opened = framing.open_envelope([b"rec", framing.envelope("a", 7, payload)])
    assert (opened.run_id, opened.seq) == ("a", 7)
    assert unpack_many(bytes(opened.payload)) == ([STEP, STEP], [])


@given(st.lists(st.integers(1, 40_000), max_size=600))
def test_batches_keep_order_and_bounds(sizes: list[int]) -> None:
    encoded = [bytes(size) for size in sizes]
    batches = list(framing.batches(encoded))
    assert [one for batch in batches for one in batch] == encoded
    for batch in batches:
        assert len(batch) <= framing.MAX_STEPS
        assert len(batch) == 1 or sum(map(len, batch)) <= framing.MAX_PAYLOAD_BYTES


@pytest.mark.parametrize(
    "frames",
    [[], [b"rec"], [b"rec", b"x", b"y"], [b"rec", b"garbage"], [b"rec", bytes(framing.MAX_FRAME_BYTES + 1)]],
)
def test_what_is_no_envelope_says_so(frames: list[bytes]) -> None:
    with pytest.raises(framing.Malformed):
        framing.open_envelope(frames)


def test_a_newer_schema_is_refused_naming_both() -> None:
    newer = msgspec.msgpack.encode(["a", 0, r.SCHEMA + 1, []])
    with pytest.raises(framing.Malformed, match=f"schema {r.SCHEMA + 1}.*up to {r.SCHEMA}"):
        framing.open_envelope([b"rec", newer])


@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_fail(data: bytes) -> None:
    try:
        framing.open_envelope([b"rec", data])
    except framing.Malformed:
        return


def test_a_deeply_nested_frame_is_only_malformed() -> None:
    with pytest.raises(framing.Malformed):
        framing.open_envelope([b"rec", b"\x91" * 900_000])
