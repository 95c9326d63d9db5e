"""Frames on a sampler's pipe: a 4-byte big-endian length, then a msgpack array of records."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.records import AnyRecord, Record, Undecodable, pack_many, unpack_many

MAX_FRAME_BYTES = 4 * 1024 * 1024
"""A longer frame is no frame: 16 GPUs with all their processes need a tenth of it."""

_LENGTH_BYTES = 4


class Corrupt(ValueError):  # noqa: N818
    """Bytes that are no frame. Nothing after them can be trusted, since the next length is unknown."""


def frame(records: Iterable[Record]) -> bytes:
    """The records as one frame; none at all makes a heartbeat."""
    payload = pack_many(records)
    return len(payload).to_bytes(_LENGTH_BYTES, "big") + payload


class Decoder:
    """Puts frames together from whatever pieces a pipe gives."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> tuple[list[AnyRecord], int, list[Undecodable]]:
        """The records of the frames completed by `data`, how many those frames are, and the records that could not be
        read (types of a newer version are left out silently). Raises Corrupt."""
        self._rest += data
        records: list[AnyRecord] = []
        faults: list[Undecodable] = []
        at = frames = 0
        while len(self._rest) - at >= _LENGTH_BYTES:
            length = int.from_bytes(self._rest[at : at + _LENGTH_BYTES], "big")
            if length > MAX_FRAME_BYTES or not length:
                raise Corrupt(f"a frame of {length} bytes")
            end = at + _LENGTH_BYTES + length
            if end > len(self._rest):
                break
            got, bad = unpack_many(bytes(self._rest[at + _LENGTH_BYTES : end]))
            if not _is_array(self._rest[at + _LENGTH_BYTES]):
                raise Corrupt("a frame that is no array of records")
            records += got
            faults += [fault for fault in bad if not fault.unknown]
            frames += 1
            at = end
        del self._rest[:at]
        return records, frames, faults


def _is_array(head: int) -> bool:
    """Whether a msgpack value that begins with this byte is an array (source: the msgpack specification)."""
    return 0x90 <= head <= 0x9F or head in (0xDC, 0xDD)
