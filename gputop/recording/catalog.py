"""Which pages belong to which table: told by the file's own trees, and where these are broken by what a page holds."""

from __future__ import annotations

import re
import sqlite3
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache

import msgspec

from gputop.recording.images import Image, Images
from gputop.recording.pages import INTERIOR, LEAF, Bad, Tree, Values, rows
from gputop.recording.schema import OWN_TABLES, TABLES, Reading, Table
from gputop.records import AnyRecord, implausible

RECORDS: dict[str, Table] = {table.name: table for table in TABLES.values()}

OWN: dict[str, int] = {"meta": 2, "run_key": 2, "text": 2, "chunk": 5}
"""The file's own tables that are needed to read records, and how many columns each has."""

WANTED = (*OWN, *RECORDS)

LEAST_KNOWN = 8
"""A file whose tables can be read and that has fewer of ours is no recording: even the first version's has 15."""

MAX_DEPTH = 12
NOT_A_ROW = (msgspec.MsgspecError, ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError)


class Kept(msgspec.Struct, frozen=True):
    """A table as a file has it: where its tree begins and what its columns are called."""

    root: int
    columns: tuple[str, ...]


class Anything(dict[int, str]):
    """Any number has a name: to see whether a row is a record before the names are known."""

    def __missing__(self, key: int) -> str:
        return "?"


_ANYTHING = Anything()


class Catalog(msgspec.Struct, frozen=True):
    """The tables by name. `whole`: as the file has them all; else some are guessed, or there may be others."""

    tables: dict[str, Kept]
    whole: bool
    foreign: bool
    """The file is whole enough to say that it is no recording."""


def read_catalog(images: Images) -> Catalog:
    """The tables that page 1 names; where it can't be read, those that this version would have made."""
    found: dict[str, Kept] = {}
    sound = False
    for newest in (True, False) if images.frames else (True,):
        leaves, whole = walk(images, 1, newest=newest)
        for leaf in leaves:
            tree = Tree(images.read(leaf), leaf.number)
            for _, row in rows(tree, images.fetch):
                if len(row) == 5 and row[0] == "table" and isinstance(row[3], int) and isinstance(row[4], str):
                    found.setdefault(str(row[1]), Kept(row[3], columns_of(row[4])))
            whole = whole and not tree.damaged
        sound = sound or whole
    usual = usual_catalog()
    known = len(found.keys() & usual.keys())
    for name in usual.keys() - found.keys():
        renamed = [other for other in found.keys() - usual.keys() if found[other].columns == usual[name].columns]
        if renamed:
            found[name] = found.pop(renamed[0])
    for name, kept in found.items():
        there, ours = set(kept.columns), set(usual[name].columns if name in usual else kept.columns)
        if not (there <= ours or there >= ours):
            found[name] = Kept(kept.root, usual[name].columns)
    lost = usual.keys() - found.keys()
    if not sound:
        found |= {name: usual[name] for name in lost}
    return Catalog(found, sound and not lost & OWN.keys(), sound and known < LEAST_KNOWN)


def columns_of(statement: str) -> tuple[str, ...]:
    """The columns that a CREATE TABLE statement names, in order."""
    inner = statement.partition("(")[2].rpartition(")")[0]
    parts = re.split(r",(?![^(]*\))", inner)
    words = [part.split() for part in parts]
    return tuple(word[0].strip('"`[]') for word in words if word and word[0].upper() not in ("PRIMARY", "UNIQUE"))


@lru_cache(maxsize=1)
def usual_catalog() -> Mapping[str, Kept]:
    """The tables of a recording that this version has begun: a first guess where page 1 is lost."""
    db = sqlite3.connect(":memory:")
    try:
        for statement in [*OWN_TABLES, *(table.create() for table in TABLES.values())]:
            db.execute(statement)
        found = db.execute("SELECT name, rootpage, sql FROM sqlite_master WHERE type = 'table'").fetchall()
        return {name: Kept(root, columns_of(sql)) for name, root, sql in found}
    finally:
        db.close()


def walk(images: Images, root: int, *, newest: bool) -> tuple[list[Image], bool]:
    """The leaves of a table's tree in order, and whether the tree is whole; through the log's pages or without them."""
    leaves: list[Image] = []
    seen: set[int] = set()

    def descend(number: int, depth: int) -> bool:
        image = images.newest(number) if newest else images.main(number)
        if image is None or number in seen or depth > MAX_DEPTH:
            return False
        seen.add(number)
        try:
            tree = Tree(images.read(image), number)
        except (Bad, struct.error):
            return False
        if tree.kind == LEAF:
            leaves.append(image)
            return not tree.damaged
        if tree.kind != INTERIOR:
            return False
        return all([not tree.damaged, *[descend(child, depth + 1) for child in tree.children()]])

    whole = descend(root, 0)
    return leaves, whole


def read_free(images: Images) -> set[int]:
    """Pages that hold nothing any more, as far as the file says so: what was given up is not brought back."""
    first = images.fetch(1)
    trunk = int.from_bytes(first[32:36], "big") if first is not None else 0
    free: set[int] = set()
    while trunk and trunk not in free and (page := images.fetch(trunk)) is not None:
        count = min(int.from_bytes(page[4:8], "big"), len(page) // 4 - 2)
        free |= {trunk, *struct.unpack_from(f">{count}I", page, 8)}
        trunk = int.from_bytes(page[:4], "big")
    return free


def fits(name: str, columns: tuple[str, ...], key: int, row: Values) -> bool:
    """Whether a row may be one of that table."""
    if name in RECORDS:
        try:
            record_of(name, columns, row, _ANYTHING, _ANYTHING)
        except NOT_A_ROW:
            return False
        return key > 0
    if len(row) != OWN[name]:
        return False
    if name == "chunk":
        numbers = [one for one in row[1:] if isinstance(one, int)]
        return row[0] is None and len(numbers) == 4 and 0 < numbers[0] <= numbers[1] and 0 <= numbers[2] <= numbers[3]
    if name == "meta":
        return isinstance(row[0], str)
    return row[0] is None and isinstance(row[1], str)


@lru_cache(maxsize=64)
def _reading(name: str, columns: tuple[str, ...]) -> Reading:
    return RECORDS[name].reading(columns)


def record_of(
    name: str, columns: tuple[str, ...], row: Values, runs: Mapping[int, str], texts: Mapping[int, str]
) -> AnyRecord:
    """The record in a row: rows written before a column was added are shorter. Raises one of NOT_A_ROW."""
    if row[0] is not None or len(row) > len(columns) or columns[0] != "seq":
        raise Bad("no row of a record")
    record = _reading(name, columns).record(row + (None,) * (len(columns) - len(row)), runs, texts)
    if (why := implausible(record)) is not None:
        raise Bad(why)
    return record


def candidates(tree: Tree, images: Images, tables: Mapping[str, Kept]) -> Iterator[str]:
    """The tables that a page of unknown origin may belong to, by what its rows hold; the likeliest first."""
    found = list(rows(tree, images.fetch))
    if not found:
        return
    scores = {}
    for name in WANTED:
        columns = tables[name].columns if name in tables else ()
        if all(len(row) != len(columns) for _, row in found):
            continue
        scores[name] = sum(fits(name, columns, key, row) for key, row in found)
    yield from sorted((name for name in scores if scores[name] * 2 > len(found)), key=lambda one: -scores[one])


def first_fits(name: str, tables: Mapping[str, Kept], tree: Tree, images: Images) -> bool:
    """Whether a page that a tree names for a table holds rows of it; an empty page may.

    Rows with fewer values than the table has columns, written before it grew, may also be whole rows of another.
    """
    if not tree.cells:
        return True
    columns = tables[name].columns
    first = [(key, row) for key, row in rows(tree, images.fetch, most=5) if fits(name, columns, key, row)]
    if not first or len(first[0][1]) == len(columns):
        return bool(first)
    return next(candidates(tree, images, tables), None) is None
