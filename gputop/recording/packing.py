"""What has no column of its own: packed into one msgpack map a row, and texts written once."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gputop.records import SyncSite, Worker

INT_LIMIT = 2**63

MAPS = ("phases_ns", "gpu_ns", "gpu_idle_ns")
"""Maps of which the usual keys have columns and only the others are packed."""


class Texts:
    """Texts that are written once and named by a number afterwards; `new` are those not yet in the file."""

    def __init__(self, known: dict[str, int]) -> None:
        self.known = known
        self.new: list[tuple[int, str]] = []

    def number(self, text: str) -> int:
        """The text's number."""
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = len(self.known) + 1
            self.new.append((found, text))
        return found

    def sites(self, sites: Iterable[SyncSite]) -> list[list[int | None]]:
        """Sync sites as short lists: a hot loop has the same ones on every step."""
        number = self.number
        return [
            [number(one.site), number(one.call), one.count, one.ns, None if one.source is None else number(one.source)]
            for one in sites
        ]


def short(name: str, value: Any, texts: Texts) -> Any:
    """A field's value as it is packed: what comes again and again is written without names and trailing zeros."""
    if name == "sync_sites":
        return texts.sites(value)
    if name == "workers":
        return [_whole(msgspec.structs.astuple(worker)) for worker in value]
    if name == "util_pct":
        return _whole(value)
    return value


def _whole(values: Iterable[Any]) -> list[Any]:
    """Floats without a fraction as ints, a ninth as long; they are read back as the floats that they were."""
    return [int(value) if type(value) is float and value.is_integer() else value for value in values]


def fit(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row whose values SQLite can hold: integers beyond 64 bits and odd characters are given up."""
    return tuple(_fitting(value) for value in row)


def _fitting(value: Any) -> Any:
    if isinstance(value, int) and not -INT_LIMIT <= value < INT_LIMIT:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return None if isinstance(value, float) and math.isnan(value) else value


_encoder = msgspec.msgpack.Encoder()


def packed(more: dict[str, Any]) -> bytes | None:
    try:
        return _encoder.encode(more)
    except (UnicodeEncodeError, OverflowError, TypeError):
        kept = {name: value for name, value in more.items() if _packs(value)}
        return _encoder.encode(kept) if kept else None


def _packs(value: Any) -> bool:
    try:
        _encoder.encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError):
        return False
    return True


def unfold(data: bytes, out: dict[str, Any], texts: Mapping[int, str]) -> None:
    """What stands in `more`, into the record's fields. Raises msgspec.MsgspecError, ValueError or KeyError."""
    more = msgspec.msgpack.decode(data)
    if not isinstance(more, dict):
        raise ValueError("more is no map")
    for name, value in more.items():
        if name in MAPS and isinstance(value, dict):
            out[name] = {**out.get(name, {}), **value}
        elif name == "sync_sites":
            out[name] = [_site(one, texts) for one in value]
        elif name == "workers":
            out[name] = [dict(zip(Worker.__struct_fields__, one, strict=False)) for one in value]
        else:
            out[name] = value


def _site(one: Any, texts: Mapping[int, str]) -> dict[str, Any]:
    site, call, count, ns, source = one
    found = {"site": texts[site], "call": texts[call], "count": count, "ns": ns}
    return found if source is None else {**found, "source": texts[source]}
