"""Records as bytes: msgpack on the wire and on pipes, JSON in lines. One that can't be read costs only itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from gputop.records import MAX_INT, TYPES, AnyRecord, Record


class Undecodable(ValueError):  # noqa: N818
    """Bytes that are no record: `unknown` when they are a record of a type that this version does not know."""

    def __init__(self, why: str, *, unknown: bool = False) -> None:
        super().__init__(why)
        self.unknown = unknown


_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError)


class _Head(msgspec.Struct):
    type: str


_msgpack_encoder = msgspec.msgpack.Encoder()
_msgpack_one = msgspec.msgpack.Decoder(AnyRecord)
_msgpack_many = msgspec.msgpack.Decoder(list[AnyRecord])
_msgpack_raw = msgspec.msgpack.Decoder(list[msgspec.Raw])
_msgpack_head = msgspec.msgpack.Decoder(_Head)
_json_encoder = msgspec.json.Encoder()
_json_one = msgspec.json.Decoder(AnyRecord)
_json_head = msgspec.json.Decoder(_Head)


def pack(record: Record) -> bytes:
    """One record as msgpack."""
    return _msgpack_encoder.encode(record)


def pack_many(records: Iterable[Record]) -> bytes:
    """A msgpack array of records."""
    return _msgpack_encoder.encode(list(records))


def unpack(data: bytes | msgspec.Raw) -> AnyRecord:
    """One record from msgpack. Raises Undecodable."""
    try:
        return _msgpack_one.decode(data)
    except _UNREADABLE as error:
        raise _explain(error, _msgpack_head, data) from None


def unpack_many(data: bytes | msgspec.Raw) -> tuple[list[AnyRecord], list[Undecodable]]:
    """The records of a msgpack array, and why the others could not be read (unknown types are no faults).

    One bad record costs only itself. Bytes that are no array at all give one fault and no record.
    """
    try:
        return _msgpack_many.decode(data), []
    except _UNREADABLE:
        pass
    try:
        raws = _msgpack_raw.decode(data)
    except _UNREADABLE as error:
        return [], [Undecodable(str(error))]
    records: list[AnyRecord] = []
    faults: list[Undecodable] = []
    for raw in raws:
        try:
            records.append(unpack(raw))
        except Undecodable as fault:
            faults.append(fault)
    return records, faults


def to_json(record: Record) -> bytes:
    """One record as a line of JSON, without the newline."""
    return _json_encoder.encode(record)


def from_json(line: bytes | str) -> AnyRecord:
    """One record from a line of JSON. Raises Undecodable."""
    try:
        return _json_one.decode(line)
    except msgspec.ValidationError as error:
        try:
            record: AnyRecord = msgspec.convert(_whole(msgspec.json.decode(line)), AnyRecord)
            return record
        except _UNREADABLE:
            raise _explain(error, _json_head, line) from None
    except _UNREADABLE as error:
        raise Undecodable(str(error)) from None


def _whole(value: Any) -> Any:
    """The value with whole floats as ints: pandas and jq write 5.0 where an integer was meant."""
    if isinstance(value, float) and abs(value) < MAX_INT and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    return [_whole(one) for one in value] if isinstance(value, list) else value


def _explain(error: Exception, head: Any, data: Any) -> Undecodable:
    try:
        tag = head.decode(data).type
    except _UNREADABLE:
        return Undecodable(str(error))
    if tag not in TYPES:
        return Undecodable(f"record type {tag!r} is not known to this version", unknown=True)
    return Undecodable(f"{tag}: {error}")
