"""Records as flat rows: which columns a record type has, and how each is read off a record.

Phases and other maps of times become columns of their own, so which columns there are is known only once all records
were seen: `columns` reads them once for their keys.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

import msgspec

from gputop.records import AnyRecord, Record, Run

FLAT = {"phases_ns": "host", "gpu_ns": "gpu", "gpu_idle_ns": "idle", "throttled_ns": "throttled"}
"""Maps of names to nanoseconds that become columns, and what the columns' names begin with."""

CANONICAL = ("data", "h2d", "forward", "backward", "optimizer", "sync", "checkpoint", "eval", "comm", "self")
"""Phases that have a column whether they occurred or not, in the order of a step."""

MAX_KEYS = 256
"""Columns that one map may become: a script that numbers its phases gets no table of a million columns."""


class Column(NamedTuple):
    """One column: its name with the unit, its Python type (`int`, `list[str]` …), and its value in a record."""

    name: str
    type: Any
    read: Callable[[Any], Any]


def columns(cls: type[Record], records: Iterable[AnyRecord], runs: dict[str, Run]) -> list[Column]:
    """The columns of a record type; `records` are read to the end where its maps must be seen."""
    fields = {field.name: _bare(field.type) for field in msgspec.structs.fields(cls)}
    maps = [name for name, kind in fields.items() if name in FLAT and typing.get_origin(kind) is dict]
    keys = _keys(maps, records) if maps else {}
    out = [Column("t_ns", int, attrgetter("t"))]
    for name, kind in fields.items():
        if name in maps:
            out += _flat(name, keys[name])
        elif name != "t":
            out.append(Column(name, kind, attrgetter(name)))
        if name == "run_id" and cls is not Run:
            out.append(Column("rank", int, _rank(runs)))
    return out


def _bare(kind: Any) -> Any:
    """A type without `| None`."""
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        inner = [one for one in typing.get_args(kind) if one is not type(None)]
        return inner[0] if len(inner) == 1 else typing.Union[tuple(inner)]  # noqa: UP007
    return kind


def _keys(maps: list[str], records: Iterable[AnyRecord]) -> dict[str, list[str]]:
    seen: dict[str, dict[str, None]] = {name: {} for name in maps}
    if "phases_ns" in seen:
        seen["phases_ns"].update(dict.fromkeys(CANONICAL))
    for record in records:
        for name, known in seen.items():
            value = getattr(record, name)
            if value and not value.keys() <= known.keys():
                known.update(dict.fromkeys(value))
    return {name: _ordered(known) for name, known in seen.items()}


def _ordered(keys: Iterable[str]) -> list[str]:
    """Phases in the order of a step, other names by the alphabet, `other` last; never more than MAX_KEYS."""
    place = {name: index for index, name in enumerate(CANONICAL)}
    place["other"] = len(CANONICAL) + 1
    return sorted(keys, key=lambda key: (place.get(key, len(CANONICAL)), key))[:MAX_KEYS]


def _flat(name: str, keys: list[str]) -> list[Column]:
    prefix = FLAT[name]
    stored = [key for key in keys if (name, key) != ("phases_ns", "other")]
    out = [Column(f"{prefix}_{key}_ns", int, _entry(name, key)) for key in stored]
    if name == "phases_ns":
        out.append(Column(f"{prefix}_other_ns", int, _left))
    return out


def _entry(name: str, key: str) -> Callable[[Any], Any]:
    def read(record: Any) -> Any:
        values = getattr(record, name)
        return None if values is None else values.get(key)

    return read


def _left(record: Any) -> int:
    """What no phase covers: derived, never stored."""
    phases: dict[str, int] = record.phases_ns
    dur_ns: int = record.dur_ns
    return max(0, dur_ns - sum(phases.values()) + phases.get("other", 0))


def _rank(runs: dict[str, Run]) -> Callable[[Any], int | None]:
    def read(record: Any) -> int | None:
        run = runs.get(record.run_id)
        return run.rank if run is not None else None

    return read
