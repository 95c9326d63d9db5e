"""Frames on a sampler's pipe: a 4-byte big-endian length, then a msgpack array of records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gputop.codec import pack_many, unpack_many
from gputop.records import AnyRecord, Record

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""A longer frame is no frame: 16 GPUs with all their processes need a tenth of it."""

_LENGTH_BYTES = 4


def frame(records: Iterable[Record]) -> bytes:
    """The records as one frame; none at all makes a heartbeat."""
    payload = pack_many(records)
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


class Fed(NamedTuple):
    """What a piece of the stream completed. `faults` counts records that could not be read; `corrupt` says why the
    stream is of no use from here on: after bytes that are no frame the next length is unknown."""

    records: list[AnyRecord]
    frames: int
    faults: int
    corrupt: str | None


class Decoder:
    """Puts frames together from whatever pieces a pipe gives."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Fed:
        """The frames completed by `data`. Records of a type that only a newer version knows are left out silently."""
        self._rest += data
        records: list[AnyRecord] = []
        at = frames = faults = 0
        corrupt = None
        while len(self._rest) - at >= _LENGTH_BYTES:
            start = at + _LENGTH_BYTES
            end = start + int.from_bytes(self._rest[at:start], "big")
            if not 0 < end - start <= MAX_FRAME_BYTES:
                corrupt = f"a frame of {end - start} bytes"
                break
            if end > len(self._rest):
                break
            if not _is_array(self._rest[start]):
                corrupt = "a frame that is no array of records"
                break
            got, bad = unpack_many(bytes(self._rest[start:end]))
            records += got
            faults += sum(not fault.unknown for fault in bad)
            frames += 1
            at = end
        del self._rest[:at]
        return Fed(records, frames, faults, corrupt)


def _is_array(head: int) -> bool:
    """Whether a msgpack value that begins with this byte is an array (source: the msgpack specification)."""
    return 0x90 <= head <= 0x9F or head in (0xDC, 0xDD)
