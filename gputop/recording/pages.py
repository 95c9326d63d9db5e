"""SQLite's pages, read without SQLite: what each holds by itself, whatever became of the rest of the file.

The format is public: https://www.sqlite.org/fileformat2.html. Nothing here trusts a byte: what can't be so raises Bad
or is left out.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator

LEAF, INTERIOR = 0x0D, 0x05
"""Kinds of pages of a table's tree; other kinds hold indexes, long rows' rests, and free room."""

KINDS = (0x02, INTERIOR, 0x0A, LEAF)

FILE_HEADER = 100
"""Bytes before the tree's part of page 1."""

PAGE_SIZES = (4096, 1024, 2048, 8192, 16384, 32768, 65536, 512)
"""What a page can measure, the usual first."""

ZEROS = bytes(9)
"""No row ends so: a 0 takes no byte, another number has eight at most, and no list of ours has nothing but 0 in it."""

MAX_ROW = 16 * 1024 * 1024
"""A longer row is none of ours."""

Values = tuple[int | float | str | bytes | None, ...]
Fetch = Callable[[int], bytes | None]
"""The page of a number, None where there is none."""


class Bad(ValueError):  # noqa: N818
    """Bytes that are not what they should be."""


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where the next thing begins. Raises Bad."""
    value = 0
    for index in range(at, at + 8):
        if index >= len(data):
            raise Bad("cut off within a number")
        byte = data[index]
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, index + 1
    if at + 8 >= len(data):
        raise Bad("cut off within a number")
    value = value << 8 | data[at + 8]
    return value - (1 << 64) if value >= 1 << 63 else value, at + 9


class Tree:
    """A page of a tree: its kind, and where its cells begin, in the order of their keys."""

    def __init__(self, page: bytes, number: int) -> None:
        at = FILE_HEADER if number == 1 else 0
        self.page = page
        self.kind, self.free, cells, start, fragments = struct.unpack_from(">BHHHB", page, at)
        self.head = at + (8 if self.kind in (LEAF, 0x0A) else 12)
        table_end = self.head + 2 * cells
        if (
            self.kind not in KINDS or self.free >= len(page) or table_end > (start or 65536)
            or (start or 65536) > len(page) or fragments > 60
        ):  # fmt: skip
            raise Bad("no page of a tree")
        pointers = struct.unpack_from(f">{cells}H", page, self.head)
        self.cells = [pointer for pointer in pointers if table_end <= pointer < len(page) - 3]
        self.damaged = len(self.cells) < cells

    def children(self) -> list[int]:
        """The pages below, of an inner page."""
        right = int.from_bytes(self.page[self.head - 4 : self.head], "big")
        return [*(int.from_bytes(self.page[at : at + 4], "big") for at in self.cells), right]

    def first_key(self) -> int | None:
        """The key of a leaf's first row that can be told."""
        for at in self.cells:
            try:
                _, after = varint(self.page, at)
                return varint(self.page, after)[0]
            except Bad:
                continue
        return None

    def end(self) -> int:
        """Where a leaf's last byte of rows lies: a page's rows are laid from its end."""
        end = 0
        for at in self.cells:
            try:
                length, after = varint(self.page, at)
                _, after = varint(self.page, after)
            except Bad:
                continue
            here = on_page(length, len(self.page))
            end = max(end, after + here + (4 if here < length else 0))
        return end


def on_page(length: int, usable: int) -> int:
    """How much of a row of `length` bytes lies in its leaf; the rest is in a chain of pages of its own."""
    most = usable - 35
    if length <= most:
        return length
    least = (usable - 12) * 32 // 255 - 23
    some = least + (length - least) % (usable - 4)
    return some if some <= most else least


def rows(tree: Tree, fetch: Fetch, most: int | None = None) -> Iterator[tuple[int, Values]]:
    """A leaf's rows (its first `most`) with their keys, as far as they hold together, in rising order of the keys."""
    found = []
    for at in tree.cells[:most]:
        try:
            key, payload = _cell(tree.page, at, fetch)
            found.append((key, values(payload)))
        except (Bad, UnicodeDecodeError, struct.error):
            tree.damaged = True
    kept = rising([key for key, _ in found])
    if len(kept) < len(found):
        tree.damaged = True
    return (found[index] for index in kept)


def _cell(page: bytes, at: int, fetch: Fetch) -> tuple[int, bytes]:
    length, at = varint(page, at)
    key, at = varint(page, at)
    if not 0 < length <= MAX_ROW:
        raise Bad("a row of no or of too many bytes")
    here = on_page(length, len(page))
    if at + here + (4 if here < length else 0) > len(page):
        raise Bad("a row beyond its page")
    payload = page[at : at + here]
    if here == length:
        if payload.endswith(ZEROS) or (payload[-1] == 0 and page[at + here : at + here + 8] == bytes(8)):
            raise Bad("zeros where a row was")
        return key, payload
    parts, left = [payload], length - here
    following = int.from_bytes(page[at + here : at + here + 4], "big")
    while left > 0:
        more = fetch(following) if following > 1 else None
        if more is None:
            raise Bad("the rest of a long row is missing")
        parts.append(more[4 : 4 + left])
        if parts[-1].endswith(bytes(64)):
            raise Bad("zeros where the rest of a long row was")
        left -= len(more) - 4
        following = int.from_bytes(more[:4], "big")
    if following:
        raise Bad("a long row goes on beyond its end")
    return key, b"".join(parts)


_INTEGERS = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}


def values(payload: bytes) -> Values:
    """The values of a row. Raises Bad, and UnicodeDecodeError for text that is none."""
    head, at = varint(payload, 0)
    if not at <= head <= len(payload):
        raise Bad("a row's head is longer than the row")
    body = head
    out: list[int | float | str | bytes | None] = []
    while at < head:
        kind = payload[at]
        at += 1
        if kind >= 0x80:
            kind, at = varint(payload, at - 1)
        if kind == 0:
            out.append(None)
        elif kind in _INTEGERS:
            size = _INTEGERS[kind]
            out.append(int.from_bytes(payload[body : body + size], "big", signed=True))
            body += size
        elif kind in (8, 9):
            out.append(kind - 8)
        elif kind == 7:
            out.append(struct.unpack_from(">d", payload, body)[0])
            body += 8
        elif kind >= 12:
            size = (kind - 12) // 2
            if body + size > len(payload):
                raise Bad("a value beyond its row")
            part = payload[body : body + size]
            out.append(part.decode() if kind % 2 else part)
            body += size
        else:
            raise Bad("a kind of value that there is not")
    if body != len(payload) or at != head:
        raise Bad("a row whose parts don't add up")
    return tuple(out)


def rising(keys: list[int]) -> list[int]:
    """The places of the longest rising run of keys: in a sound leaf all of them."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for index, key in enumerate(keys):
        if not tails or key > tails[-1]:
            place = len(tails)
            tails.append(key)
            ends.append(index)
        else:
            place = bisect_right(tails, key)
            if place and tails[place - 1] == key:
                place -= 1
            tails[place], ends[place] = key, index
        before.append(ends[place - 1] if place else -1)
    out: list[int] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        out.append(at)
        at = before[at]
    return out[::-1]
