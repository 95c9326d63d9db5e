"""What goes over a socket: a topic frame, then an envelope that carries records of one run.

`seq` numbers the records of a run from 0; an envelope's is its first record's. None marks records outside that count
(hello, replies). Within an envelope the payload is a msgpack array of records, at most MAX_PAYLOAD_BYTES and MAX_STEPS.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from gputop.records import SCHEMA

TOPIC_RECORDS = b"rec"
"""The topic of everything that every viewer gets."""

MAX_PAYLOAD_BYTES = 64 * 1024
MAX_STEPS = 256
"""Records in one envelope: as many as can be encoded while holding the interpreter for less than 0.5 ms."""

MAX_FRAME_BYTES = 1024 * 1024
"""A frame above this is hostile or broken; no honest envelope comes near it."""

PREFIX_FOR = b"for:"


def topic_for(viewer: str) -> bytes:
    """One viewer's private topic. The NUL keeps one id from being another's prefix."""
    return PREFIX_FOR + viewer.encode() + b"\0"


class Envelope(msgspec.Struct, frozen=True, array_like=True):
    """The second frame of a message."""

    run_id: str
    seq: int | None
    schema: int
    payload: msgspec.Raw


class Malformed(ValueError):  # noqa: N818
    """A message that is no envelope, or one of a newer major schema; the text says which, in a sentence."""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Envelope)


def envelope(run_id: str, seq: int | None, payload: bytes) -> bytes:
    """The bytes of an envelope around an encoded msgpack array of records."""
    return _encoder.encode(Envelope(run_id, seq, SCHEMA, msgspec.Raw(payload)))


def open_envelope(frames: list[bytes]) -> Envelope:
    """The envelope of a received message. Raises Malformed."""
    if len(frames) != 2:
        raise Malformed(f"a message of {len(frames)} frames instead of 2")
    if len(frames[1]) > MAX_FRAME_BYTES:
        raise Malformed(f"a frame of {len(frames[1])} bytes")
    try:
        opened = _decoder.decode(frames[1])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise Malformed(f"not an envelope: {error}") from None
    if opened.schema > SCHEMA:
        raise Malformed(
            f"a publisher speaks schema {opened.schema}, this gputop reads up to {SCHEMA}: upgrade gputop-live here"
        )
    return opened


def array(encoded: list[bytes]) -> bytes:
    """A msgpack array of already encoded records (source: the msgpack specification, array family)."""
    count = len(encoded)
    if count < 16:
        head = bytes([0x90 | count])
    elif count < 65_536:
        head = b"\xdc" + count.to_bytes(2, "big")
    else:
        head = b"\xdd" + count.to_bytes(4, "big")
    return head + b"".join(encoded)


def batches(encoded: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Encoded records in runs that fit an envelope, in order. A record too large for any envelope goes alone."""
    batch: list[bytes] = []
    size = 0
    for one in encoded:
        if batch and (len(batch) >= MAX_STEPS or size + len(one) > MAX_PAYLOAD_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one)
    if batch:
        yield batch
