"""The tables of a recording, made from the record types: scalars are columns, the rest is one msgpack column `more`.

Tables and columns are only ever added. A reader takes the columns that a file has; those it lacks are unknown figures.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter, itemgetter
from typing import Any

import msgspec

from gputop import records as rec
from gputop.recording.columns import Columns
from gputop.recording.packing import Texts, packed, short, unfold
from gputop.records import AnyRecord, Record, Run, Step

APPLICATION_ID = 0x67707470
"""What byte 68 of the file says it is: "gptp"."""

KEPT: tuple[type[Record], ...] = tuple(cls for cls in rec.TYPES.values() if cls not in (rec.Request, rec.Reply))
"""The record types that a recording keeps; requests and replies are talk between a viewer and a publisher."""

PHASES = ("data", "h2d", "forward", "backward", "optimizer", "sync", "checkpoint", "eval", "comm", "self")
"""Phases with a column of their own; a script's own phases stand in `more`."""

DEVICE = ("data", "h2d", "forward", "backward", "optimizer")
"""Phases whose device time has a column."""

IDLE = (*DEVICE, "sync", "other")
"""Phases whose device idle time has a column."""

SPREAD = {"phases_ns": ("host", PHASES), "gpu_ns": ("gpu", DEVICE), "gpu_idle_ns": ("idle", IDLE)}
"""Maps that lie in columns, each called prefix_phase_ns."""

RARE = frozenset({
    "partial", "profiled", "sampled", "host_checkpoint_ns", "host_eval_ns", "idle_h2d_ns", "idle_forward_ns",
    "idle_backward_ns", "idle_optimizer_ns",
})  # fmt: skip
"""What few steps have. It stands in `more`: an empty column costs every row a byte. Files that have these columns keep
them, and they are read."""

_SCALARS: dict[type, str] = {int: "INTEGER", float: "REAL", str: "TEXT", bool: "INTEGER"}

Row = tuple[Any, ...]

MAX_SHAPES = 512
"""Insert statements kept for a table."""


def _scalar(hint: Any) -> type | None:
    """The scalar type that a field holds, None when it holds more."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)] if _is_union(hint) else [hint]
    return kinds[0] if len(kinds) == 1 and kinds[0] in _SCALARS else None


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _getter(keys: list[Any]) -> Callable[[Any], Row]:
    """Picks these items out of a sequence or map, as a tuple."""
    if not keys:
        return lambda values: ()
    pick = itemgetter(*keys)
    return pick if len(keys) > 1 else lambda values: (pick(values),)


def _attributes(names: list[str]) -> Callable[[Any], Row]:
    """Picks these attributes, as a tuple."""
    if not names:
        return lambda record: ()
    pick = attrgetter(*names)
    return pick if len(names) > 1 else lambda record: (pick(record),)


def _keys(given: dict[str, Any] | None) -> Row | None:
    return None if given is None else tuple(given)


class Table:
    """How one record type lies in the file.

    `columns` in order: `seq`, for types that belong to a run `run`, the scalar fields, the spread-out maps, `train` for
    steps (whether the tiers count it), and `more`. `known`: these and the ones that older files have beside them.
    """

    def __init__(self, cls: type[Record]) -> None:
        self.cls = cls
        self.name = str(cls.__struct_config__.tag)
        self.fields = cls.__struct_fields__
        hints = typing.get_type_hints(cls)
        self.has_run = "run_id" in self.fields and cls is not Run
        kinds = {name: kind for name in self.fields if (kind := _scalar(hints[name]))}
        if self.has_run:
            del kinds["run_id"]
        self.bools = frozenset(name for name, kind in kinds.items() if kind is bool)
        self.spread = {name: SPREAD[name] for name in self.fields if name in SPREAD}
        self.columns: dict[str, str] = {"seq": "INTEGER PRIMARY KEY"}
        if self.has_run:
            self.columns["run"] = "INTEGER"
        self.columns |= {name: _SCALARS[kind] for name, kind in kinds.items()}
        self.scalars = tuple(kinds)
        self.places = {
            f"{prefix}_{phase}_ns": (name, phase) for name, (prefix, phases) in self.spread.items() for phase in phases
        }
        self.columns |= dict.fromkeys(self.places, "INTEGER")
        if cls is Step:
            self.columns["train"] = "INTEGER"
        self.columns["more"] = "BLOB"
        self.known = tuple(self.columns)
        if cls is Step:
            self.columns = {name: kind for name, kind in self.columns.items() if name not in RARE}
        at = {name: index for index, name in enumerate(self.fields)}
        self.at = at
        self._flags = [at[name] for name in self.scalars if name in self.bools]
        self._bools = _getter(self._flags)
        self._maps = _getter([at[name] for name in self.spread])
        self._shapes: dict[Any, Shape] = {}
        self._last: Shape | None = None

    def create(self) -> str:
        """The statement that makes the table."""
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        return f"CREATE TABLE IF NOT EXISTS {self.name} ({columns})"

    def row(self, seq: int, run: int | None, record: Record, texts: Texts) -> tuple[Shape, Row]:
        """How to insert a record, and its values.

        Records alike in what they lack share a statement: binding None or a bool costs Python's sqlite3 ten times
        an int.
        """
        shape = self._last
        if shape is not None and shape.has_run == (run is not None):
            row = shape.row(seq, run, record, texts)
            if row is not None:
                return shape, row
        shape = self._shape(run is not None, record, False)
        row = shape.row(seq, run, record, texts)
        assert row is not None
        return shape, row

    def rows(
        self, seqs: Sequence[int], runs: Sequence[int], steps: Columns, texts: Texts, trains: Sequence[bool]
    ) -> dict[Shape, list[Row]]:
        """The values of steps by how to insert them. Mostly all are alike, and made at once."""
        shape = self._last
        if shape is not None and trains.count(shape.train) == len(trains) and shape.has_run:
            rows = shape.rows(seqs, runs, steps, texts)
            if rows is not None:
                return {shape: rows}
        out: dict[Shape, list[Row]] = {}
        for places in self._alike(steps, trains):
            first = places[0]
            some = steps if len(places) == len(trains) else steps.some(places)
            shape = self._shape(True, some.steps[0], trains[first])
            rows = shape.rows([seqs[at] for at in places], [runs[at] for at in places], some, texts)
            assert rows is not None
            out.setdefault(shape, []).extend(rows)
        return out

    def _alike(self, steps: Columns, trains: Sequence[bool]) -> Iterable[list[int]]:
        """The places of steps that are alike in what they lack, in their flags and in the keys of their maps."""
        maps = {self.at[name] for name in self.spread}
        telling: list[Sequence[Any]] = [trains]
        for index, column in enumerate(steps.fields):
            if index in maps:
                telling.append(list(map(_keys, column)))
            elif index in self._flags:
                telling.append(column)
            elif 0 < column.count(None) < len(column):
                telling.append([value is None for value in column])
        found: dict[Row, list[int]] = {}
        for place, told in enumerate(zip(*telling, strict=True)):
            found.setdefault(told, []).append(place)
        return found.values()

    def _shape(self, has_run: bool, record: Record, train: bool) -> Shape:
        """The statement for records like this one."""
        values = msgspec.structs.astuple(record)
        key = (has_run, train, tuple(map(type, values)), self._bools(values), *map(_keys, self._maps(values)))
        shape = self._shapes.get(key)
        if shape is None:
            if len(self._shapes) >= MAX_SHAPES:
                self._shapes.clear()
            shape = self._shapes[key] = Shape(self, record, has_run, train)
        self._last = shape
        return shape

    def reading(self, names: tuple[str, ...]) -> Reading:
        """How rows whose columns are called `names` are read; the columns of one map must stand together."""
        return Reading(self, names)


class Reading:
    """Turns rows of some columns of a table into records."""

    def __init__(self, table: Table, names: tuple[str, ...]) -> None:
        self._cls = table.cls
        at = {name: index for index, name in enumerate(names)}
        self._run = at.get("run", -1)
        self._more = at.get("more", -1)
        self._bools = tuple((at[name], name) for name in table.scalars if name in at and name in table.bools)
        plain = [name for name in table.scalars if name in at and name not in table.bools]
        self._names = tuple(plain)
        self._plain = _getter([at[name] for name in plain])
        self._maps = []
        for field in table.spread:
            columns = [name for name, (one, _) in table.places.items() if one == field and name in at]
            phases = tuple(table.places[name][1] for name in columns)
            self._maps.append((field, phases, _getter([at[name] for name in columns])))
        self._always = ("phases_ns",) if "phases_ns" in table.spread else ()

    def record(self, row: Row, runs: Mapping[int, str], texts: Mapping[int, str]) -> AnyRecord:
        """The record in a row. Raises msgspec.MsgspecError, ValueError, TypeError or KeyError."""
        out: dict[str, Any] = {
            name: value for name, value in zip(self._names, self._plain(row), strict=True) if value is not None
        }
        for index, name in self._bools:
            if (flag := row[index]) is not None:
                out[name] = bool(flag)
        for field, phases, pick in self._maps:
            found = {phase: ns for phase, ns in zip(phases, pick(row), strict=True) if ns is not None}
            if found or field in self._always:
                out[field] = found
        if self._run >= 0 and (run := row[self._run]) is not None:
            out["run_id"] = runs[run]
        if self._more >= 0 and (more := row[self._more]) is not None:
            unfold(more, out, texts)
        record: AnyRecord = msgspec.convert(out, self._cls)  # type: ignore[assignment]
        return record


class Shape:
    """Rows of records that have and lack the same figures."""

    def __init__(self, table: Table, record: Record, has_run: bool, train: bool) -> None:
        self.train, self.has_run = train, has_run
        fields = [name for name in table.fields if not (table.has_run and name == "run_id")]
        present = [name for name in fields if getattr(record, name) is not None]
        flags = [name for name in present if name in table.bools and name in table.columns]
        absent = [name for name in fields if name not in present]
        self._told = _attributes([*absent, *flags])
        self._same = self._told(record)
        constants = {name: int(getattr(record, name)) for name in flags}
        if train:
            constants["train"] = 1
        bound = [name for name in present if name in table.columns and name not in flags]
        self._scalars = _attributes(bound)
        self._sames = [(at, getattr(record, name)) for name, at in table.at.items() if name in {*flags, *absent}]
        self._bound = [table.at[name] for name in bound]
        self._maps, self._spread, self._extra = [], [], []
        for name in table.spread:
            if name not in present:
                continue
            given: dict[str, Any] = getattr(record, name)
            named = {
                phase: column
                for column, (field, phase) in table.places.items()
                if field == name and phase in given and column in table.columns
            }
            bound += named.values()
            self._maps.append((attrgetter(name), len(given), _getter(list(named))))
            self._spread.append((table.at[name], set(given), list(named)))
            extra = [phase for phase in given if phase not in named]
            if extra or (not given and name != "phases_ns"):
                self._extra.append((name, attrgetter(name), extra))
        self._loose = [(name, attrgetter(name)) for name in present if name not in table.spread]
        self._loose = [(name, pick) for name, pick in self._loose if name not in table.columns]
        head = ["seq", "run"] if has_run else ["seq"]
        self._more = bool(self._loose or self._extra)
        names = [*head, *bound, *(["more"] if self._more else []), *constants]
        marks = ["?"] * (len(names) - len(constants)) + [str(value) for value in constants.values()]
        self.insert = f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({', '.join(marks)})"

    def row(self, seq: int, run: int | None, record: Record, texts: Texts) -> Row | None:
        """The values that the statement binds; None for a record of another shape."""
        if self._told(record) != self._same:
            return None
        scalars = self._scalars(record)
        if None in scalars:
            return None
        out = (seq, run, *scalars) if self.has_run else (seq, *scalars)
        try:
            for of, count, pick in self._maps:
                given = of(record)
                if len(given) != count:
                    return None
                out += pick(given)
            return (*out, self._packed(record, texts)) if self._more else out
        except (KeyError, TypeError):  # a map is missing, or has other keys
            return None

    def rows(self, seqs: Sequence[int], runs: Sequence[int], steps: Columns, texts: Texts) -> list[Row] | None:
        """The values of steps; None where one of them has another shape."""
        fields, count = steps.fields, len(seqs)
        if any(fields[index].count(value) != count for index, value in self._sames):
            return None
        bound: list[Sequence[Any]] = [seqs, runs]
        for index in self._bound:
            column = fields[index]
            if column[0] is None or (column.count(column[0]) != count and None in column):
                return None
            bound.append(column)
        try:
            for index, keys, named in self._spread:
                maps = steps.maps(index)
                if maps.columns is None or keys != set(maps.keys):
                    return None
                bound += [maps.columns[maps.keys.index(key)] for key in named]
            if self._more:
                bound.append([self._packed(step, texts) for step in steps.steps])
        except (KeyError, TypeError):  # a map is missing, or has other keys
            return None
        return list(zip(*bound, strict=True))

    def _packed(self, record: Record, texts: Texts) -> bytes | None:
        """What has no column, packed. Raises KeyError and TypeError where the record lacks some of it."""
        more: dict[str, Any] = {name: {phase: of(record)[phase] for phase in extra} for name, of, extra in self._extra}
        for name, of in self._loose:
            value = of(record)
            if value is None:
                raise KeyError(name)
            more[name] = short(name, value, texts)
        return packed(more)


TABLES: dict[type[Record], Table] = {cls: Table(cls) for cls in KEPT}
"""Each kept record type's table."""

SUMS = tuple(f"host_{phase}_ns" for phase in PHASES)

_TIER = (
    "run INTEGER NOT NULL, t INTEGER NOT NULL, width_ns INTEGER NOT NULL, steps INTEGER NOT NULL, "
    "dur_ns INTEGER NOT NULL, min_ns INTEGER NOT NULL, max_ns INTEGER NOT NULL, samples INTEGER NOT NULL, "
    + ", ".join(f"{name} INTEGER" for name in SUMS)
    + ", more BLOB"
)

OWN_TABLES = (
    "CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value)",
    "CREATE TABLE IF NOT EXISTS run_key (run INTEGER PRIMARY KEY, run_id TEXT UNIQUE NOT NULL)",
    "CREATE TABLE IF NOT EXISTS text (id INTEGER PRIMARY KEY, value TEXT UNIQUE NOT NULL)",
    "CREATE TABLE IF NOT EXISTS chunk (id INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, "
    "from_ns INTEGER NOT NULL, to_ns INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS chunk_time ON chunk (to_ns, from_ns, first_seq, last_seq)",
    f"CREATE TABLE IF NOT EXISTS second (id INTEGER PRIMARY KEY, chunk INTEGER NOT NULL, {_TIER}, "
    "all_steps INTEGER NOT NULL, all_ns INTEGER NOT NULL, all_samples INTEGER NOT NULL)",
    "CREATE INDEX IF NOT EXISTS second_run ON second (run, chunk)",
    f"CREATE TABLE IF NOT EXISTS minute ({_TIER}, sketch BLOB, PRIMARY KEY (run, t))",
)
"""The file's own tables: names and numbers, the time index (a chunk is a transaction), and the tiers."""
