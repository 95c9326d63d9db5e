"""Makes the recordings of one schema that stay here for good: `python -m tests.recordings.make`.

Run it once when a schema is released, with that version, and never again: a later version must read these as they are.
`vN-types.gputop` holds every type with every field filled, `vN-run.gputop` half a minute of a simulated training with
the verdicts of its time. Beside each lies what was put in, as a trace in JSON Lines.
"""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any

import msgspec

from gputop import codec
from gputop import records as rec
from gputop.recording.writer import Writer
from gputop.simulation.trace import records as simulated
from gputop.watching import Watch

HERE = Path(__file__).parent
S = 1_000_000_000
T0 = 1_760_000_000 * S
"""When they begin (epoch ns)."""

NAMES = {"phases_ns": "data", "gpu_ns": "forward", "gpu_idle_ns": "data"}
"""Keys of maps that spread over columns of their own; one of no such name is put beside each."""


def filled(kind: Any, name: str, number: int) -> Any:
    """A value of an annotated type, other for each number."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return filled(next(one for one in arguments if one is not type(None)), name, number)
    if origin is typing.Literal:
        return arguments[number % len(arguments)]
    if origin is list:
        return [filled(arguments[0], name, number + more) for more in range(2)]
    if origin is dict:
        keys = (NAMES.get(name, "first"), "its own")
        return {key: filled(arguments[1], name, number + more) for more, key in enumerate(keys)}
    if origin is tuple:
        return tuple(filled(one, name, number) for one in arguments if one is not ...)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return struct(kind, number)
    if kind is bool:
        return number % 2 == 0
    if kind is float:
        return number + 0.25
    if kind is int:
        return number
    if kind is str:
        return f"{name} {number} µ"
    return {"name": name, "ns": number}


def struct(kind: type[msgspec.Struct], number: int) -> Any:
    """One of these with every field filled."""
    hints = typing.get_type_hints(kind)
    values = {
        field.name: filled(hints[field.name], field.name, number + at)
        for at, field in enumerate(msgspec.structs.fields(kind))
    }
    return kind(**values)


def every_type() -> list[rec.Record]:
    """A record of each type that is recorded, in full."""
    out: list[rec.Record] = []
    for at, kind in enumerate(one for one in rec.TYPES.values() if one not in (rec.Request, rec.Reply)):
        made = struct(kind, at)
        fixed: dict[str, Any] = {"t": T0 + at}
        if hasattr(made, "run_id"):
            fixed["run_id"] = "r"
        if isinstance(made, rec.Run):
            fixed["schema"] = rec.SCHEMA
        out.append(msgspec.structs.replace(made, **fixed))
    return out


def half_a_minute() -> list[rec.Record]:
    """A simulated training, and what was judged of it."""
    watch = Watch()
    out: list[rec.Record] = []
    for record in simulated("input-workers", seconds=30, seed=1, start_ns=T0):
        out.append(record)
        watch.add(record)  # type: ignore[arg-type]
        if isinstance(record, rec.Alive):
            watch.tick(record.t)
            out.extend(watch.news)
    return out


def write(name: str, records: list[rec.Record]) -> None:
    """The recording and the trace of one name."""
    path = HERE / f"v{rec.SCHEMA}-{name}.gputop"
    if path.exists():
        raise SystemExit(f"{path.name} is there already: what a released version has written is not made again")
    writer = Writer(path, now_ns=T0)
    for at in range(0, len(records), 50):
        for record in records[at : at + 50]:
            writer.add(record)
        writer.commit(T0 + at)
    writer.close(T0 + len(records))
    path.with_suffix(".jsonl").write_bytes(b"".join(codec.to_json(record) + b"\n" for record in records))


if __name__ == "__main__":
    write("types", every_type())
    write("run", half_a_minute())
