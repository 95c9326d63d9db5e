"""Records as bytes: what is written is read back, what is unknown is ignored, what is broken costs itself alone."""

from __future__ import annotations

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop import records as r
from gputop.codec import Undecodable, from_json, pack, to_json, unpack, unpack_many

STEP = r.Step(t=10, run_id="a", n=1, dur_ns=5, phases_ns={"data": 3})


def sample(cls: type[r.Record]) -> r.Record:
    """A record of a type with every field filled in."""
    hints = typing.get_type_hints(cls)
    return cls(**{name: _value(hints[name]) for name in cls.__struct_fields__})


def _value(hint: object) -> object:
    options = typing.get_args(hint)
    origin = typing.get_origin(hint)
    if origin is list:
        return [_value(options[0])]
    if origin is dict:
        return {"cuda:0": _value(options[1])}
    if type(None) in options:
        return _value(next(one for one in options if one is not type(None)))
    if options:
        return _value(options[0])
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        inner = typing.get_type_hints(hint)
        return hint(**{name: _value(inner[name]) for name in hint.__struct_fields__})
    return {int: 7, float: 1.5, str: "x", bool: True, typing.Any: "any"}[hint]


@pytest.mark.parametrize("cls", r.TYPES.values(), ids=lambda cls: cls.__name__)
def test_every_record_reads_back_equal_with_every_field(cls: type[r.Record]) -> None:
    record = sample(cls)
    assert unpack(pack(record)) == record
    assert from_json(to_json(record)) == record


@pytest.mark.parametrize("cls", r.TYPES.values(), ids=lambda cls: cls.__name__)
def test_absent_fields_stay_absent(cls: type[r.Record]) -> None:
    required = {field.name for field in msgspec.structs.fields(cls) if field.required}
    record = cls(**{name: value for name, value in _fields(sample(cls)).items() if name in required})
    assert set(msgspec.json.decode(to_json(record))) == required | {"type"}
    assert from_json(to_json(record)) == record


def _fields(record: r.Record) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__struct_fields__}


def test_unknown_fields_are_ignored() -> None:
    line = b'{"type":"step","t":10,"run_id":"a","n":1,"dur_ns":5,"phases_ns":{"data":3},"colour":"red"}'
    assert from_json(line) == STEP


def test_unknown_type_is_told_from_a_broken_record() -> None:
    payload = msgspec.msgpack.encode([{"type": "weather", "t": 1}, {"type": "step", "t": 1}, STEP])
    records, faults = unpack_many(payload)
    assert records == [STEP]
    assert [fault.unknown for fault in faults] == [True, False]


def test_whole_floats_are_taken_for_integers() -> None:
    line = '{"type":"step","t":10.0,"run_id":"a","n":1.0,"dur_ns":5.0,"phases_ns":{"data":3.0}}'
    assert from_json(line) == STEP


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "null", "42", '"step"', '{"type":"step"}', '{"type":5}', "{" * 5000, '{"a":' * 5000]
)
def test_what_is_no_record_says_so(line: str) -> None:
    with pytest.raises(Undecodable):
        from_json(line)


@given(st.binary(max_size=400))
def test_no_bytes_do_more_than_fail(data: bytes) -> None:
    unpack_many(data)


def test_deeply_nested_bytes_are_only_undecodable() -> None:
    records, faults = unpack_many(b"\x91" * 900_000)
    assert records == []
    assert len(faults) == 1
    with pytest.raises(Undecodable):
        from_json('{"type":"step","t":1e308,"run_id":"a","n":1,"dur_ns":5,"phases_ns":{}}')
