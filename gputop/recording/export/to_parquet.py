"""Parquet: one record type, typed columns, written a row group at a time. Needs pyarrow."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

import msgspec

from gputop.recording.export import Missing
from gputop.recording.export.columns import Column, columns
from gputop.recording.export.material import Material
from gputop.records import MAX_INT, Record, Step

SUFFIX = ".parquet"
TYPES: tuple[type[Record], ...] = (Step,)
TABLE = True
TO_STDOUT = False

GROUP = 32_768
"""Rows of a row group, and all that is held at once: some tens of megabytes while it is being built."""

_json = msgspec.json.Encoder()


def write(material: Material, types: tuple[type[Record], ...], out: BinaryIO) -> int:
    """Write the records of the one type in `types`; returns how many. Raises Missing, and OSError as `out` does."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise Missing(
            "Parquet needs pyarrow, which is not installed here: pip install 'gputop-live[parquet]'"
        ) from None
    (cls,) = types
    table = columns(cls, material.read(types), material.runs)
    kinds = [pa.timestamp("ns", tz="UTC"), *(_kind(pa, column.type) for column in table[1:])]
    names = ["t", *(column.name for column in table[1:])]
    schema = pa.schema(list(zip(names, kinds, strict=True)))
    count = 0
    records = material.read(types)
    with pq.ParquetWriter(out, schema, compression="zstd") as writer:
        while group := list(islice(records, GROUP)):
            arrays = [_array(pa, column, kind, group) for column, kind in zip(table, kinds, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema=schema), row_group_size=GROUP)
            count += len(group)
    return count


def _kind(pa: Any, kind: Any) -> Any:
    """The Arrow type of a Python type; what has no fixed shape is JSON text."""
    plain = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    if kind in plain:
        return plain[kind]
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is list and _shaped(inner[0]):
        return pa.list_(_kind(pa, inner[0]))
    if origin is dict and inner[1] in plain:
        return pa.map_(pa.string(), plain[inner[1]])
    if _is_struct(kind):
        return pa.struct([(field.name, _kind(pa, _optional(field.type))) for field in msgspec.structs.fields(kind)])
    return pa.string()


def _shaped(kind: Any) -> bool:
    return kind in (int, float, bool, str) or _is_struct(kind)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _optional(kind: Any) -> Any:
    """A field's type without None; a union of several is told as text."""
    inner = [one for one in typing.get_args(kind) if one is not type(None)]
    if typing.get_origin(kind) in (list, dict) or not inner:
        return kind
    return inner[0] if len(inner) == 1 else str


def _array(pa: Any, column: Column, kind: Any, group: list[Any]) -> Any:
    values = [column.read(record) for record in group]
    if pa.types.is_string(kind) and column.type is not str:
        values = [None if value is None else _json.encode(value).decode() for value in values]
    elif pa.types.is_nested(kind):
        values = list(_nested(kind, values, pa))
    try:
        return pa.array(values, type=kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([_fitting(value) for value in values], type=kind)


def _nested(kind: Any, values: list[Any], pa: Any) -> Iterator[Any]:
    for value in values:
        if value is None:
            yield None
        elif pa.types.is_map(kind):
            yield list(value.items())
        else:
            yield _told(msgspec.to_builtins(value), kind, pa)


def _told(value: Any, kind: Any, pa: Any) -> Any:
    """A struct's fields that are numbers or text as text, where the column can hold only one of the two."""
    if pa.types.is_list(kind) and pa.types.is_struct(kind.value_type):
        return [_told(one, kind.value_type, pa) for one in value]
    if not pa.types.is_struct(kind):
        return value
    texts = {field.name for field in kind if pa.types.is_string(field.type)}
    return {name: str(one) if name in texts and one is not None else one for name, one in value.items()}


def _fitting(value: Any) -> Any:
    """A value that a column of 64 bits can hold, else None."""
    return None if isinstance(value, int) and not -MAX_INT <= value < MAX_INT else value
