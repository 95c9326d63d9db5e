"""The records of a damaged recording, in order of arrival, from whatever pages are left of it."""

from __future__ import annotations

import heapq
import re
import struct
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from gputop.recording import catalog as cat
from gputop.recording.catalog import NOT_A_ROW, RECORDS, Kept
from gputop.recording.chunk import DESCRIBING
from gputop.recording.images import Image, Images
from gputop.recording.pages import LEAF, Bad, Tree, Values, rows
from gputop.records import AnyRecord, Step

_LINE = re.compile(r"[:(]")
"""What a line of code or a call has in it, and a run's name has not."""

MAX_CHUNK = 10**7
"""No transaction has so many records."""

MAX_SEQ = 2**48
"""No recording has so many records: a higher number is damage."""


class Names(dict[int, str]):
    """Names by number. A missing one is noted and gets a name of its own."""

    def __init__(self, missing: str) -> None:
        super().__init__()
        self._missing = missing
        self.lost: set[int] = set()

    def __missing__(self, number: int) -> str:
        self.lost.add(number)
        return f"{self._missing}{number}"


class Chunks:
    """The time index, as far as it can be read: which numbers were written when."""

    def __init__(self, found: Mapping[int, Values]) -> None:
        ordered = sorted(numbers for row in found.values() if len(numbers := _numbers(row)) == 4)
        self._columns = [array("q", [row[at] for row in ordered]) for at in range(4)]
        self.last_seq = max(self._columns[1], default=0)
        self.first_seq = self._columns[0][0] if ordered else 1
        self.total = sum(last - first + 1 for first, last, *_ in ordered if last - first < MAX_CHUNK)

    def tells_of(self, seq: int, t: int) -> bool:
        """Whether a record of that number may begin at `t`: what the index doesn't know it doesn't deny."""
        firsts, lasts, froms, tos = self._columns
        at = bisect_right(firsts, seq) - 1
        return at < 0 or seq > lasts[at] or froms[at] <= t <= tos[at]


def _numbers(row: Values) -> list[int]:
    return [one for one in row[1:] if isinstance(one, int)]


class Salvage:
    """What is left of a recording. `whole`: every table's tree is; `bad`: rows that could not be read."""

    def __init__(self, images: Images) -> None:
        self._images = images
        catalog = cat.read_catalog(images)
        self.foreign, self.whole = catalog.foreign, catalog.whole
        self._told = catalog.whole
        self._tables = catalog.tables
        self.bad = 0
        self.without_sites = 0
        self.unknown: dict[str, int] = {}
        self._others: dict[str, list[Image]] = {}
        self._elsewhere: set[int] = set()
        self._leaves: dict[str, list[Image]] = {name: [] for name in cat.WANTED}
        self._forgets = self._follow_trees()
        if not self.whole or self._too_few():
            self.whole = False
            self._look_everywhere()
        self.meta = self._read_meta()
        self.runs, self.texts = Names("unknown-"), Names("")
        for names, table in ((self.runs, "run_key"), (self.texts, "text")):
            names.update({key: str(row[1]) for key, row in self._rows(table)})
        self._name_the_only_run()
        self.chunks = Chunks(dict(self._rows("chunk")))

    @property
    def empty(self) -> bool:
        """Whether nothing of a recording was found."""
        return not any(self._leaves[name] for name in RECORDS)

    def _follow_trees(self) -> bool:
        """Collect the leaves that the trees lead to; returns whether the time index is whole."""
        index_whole = False
        for name, kept in list(self._tables.items()):
            leaves, whole = self._follow(kept.root)
            if name not in self._leaves:
                if self._told:
                    self._note_other(name, kept, leaves)
                continue
            usual = cat.usual_catalog()[name].columns
            fitting = [leaf for leaf in leaves if self._belongs(leaf, name)]
            if leaves and not fitting and usual != kept.columns:
                self._tables[name] = Kept(kept.root, usual)
                fitting = [leaf for leaf in leaves if self._belongs(leaf, name)]
            self._leaves[name] = fitting
            whole = whole and len(fitting) == len(leaves)
            self.whole = self.whole and whole
            if name == "chunk":
                index_whole = whole
        return index_whole

    def _follow(self, root: int) -> tuple[list[Image], bool]:
        """A tree's leaves, as the log's pages show it and as the file alone does: a log may be older than its file."""
        leaves, whole = cat.walk(self._images, root, newest=True)
        if self._images.frames:
            others, _ = cat.walk(self._images, root, newest=False)
            leaves = list(dict.fromkeys([*leaves, *others]))
        return leaves, whole

    def _too_few(self) -> bool:
        """Whether the leaves have fewer rows than were written: a tree may be whole, but another table's."""
        written = Chunks(dict(self._rows("chunk"))).total
        names = [*RECORDS, *self._others]
        leaves = [leaf for name in names for leaf in self._leaves.get(name) or self._others.get(name) or []]
        return sum(len(Tree(self._images.read(leaf), leaf.number).cells) for leaf in leaves) < written

    def _note_other(self, name: str, kept: Kept, leaves: list[Image]) -> None:
        """A table of tiers, or one of a newer version: its pages are no others', its numbers not missing."""
        self._elsewhere |= {leaf.number for leaf in leaves}
        if kept.columns[:1] == ("seq",):
            self._others[name] = leaves

    def _belongs(self, leaf: Image, name: str) -> bool:
        return cat.first_fits(name, self._tables, Tree(self._images.read(leaf), leaf.number), self._images)

    def _look_everywhere(self) -> None:
        """Find the leaves that no tree leads to any more, and tell by their rows whose they are."""
        known = {leaf for leaves in self._leaves.values() for leaf in leaves}
        free = cat.read_free(self._images)
        tables = {**cat.usual_catalog(), **self._tables}
        for image in self._images.all():
            if image in known or image.number in self._elsewhere or (image.number in free and not image.in_log):
                continue
            with suppress(Bad, struct.error):
                tree = Tree(self._images.read(image), image.number)
                if tree.kind == LEAF and (owner := next(cat.candidates(tree, self._images, tables), None)):
                    self._leaves[owner].append(image)
        self._tell_names_apart()

    def _tell_names_apart(self) -> None:
        """Rows of `run_key` and of `text` look alike; runs are named by their own records too."""
        run_ids = self._run_ids()
        pages = [*self._leaves["run_key"], *self._leaves["text"]]
        self._leaves["run_key"], self._leaves["text"] = [], []
        for image in pages:
            found = [str(row[1]) for _, row in rows(Tree(self._images.read(image), image.number), self._images.fetch)]
            of_runs = all(one in run_ids for one in found) if run_ids else not any(_LINE.search(one) for one in found)
            self._leaves["run_key" if of_runs else "text"].append(image)

    def _run_ids(self) -> set[str]:
        columns = self._tables["run"].columns if "run" in self._tables else ()
        at = columns.index("run_id") if "run_id" in columns else MAX_SEQ
        return {str(row[at]) for _, row in self._rows("run") if len(row) > at}

    def _read_meta(self) -> dict[str, Any]:
        return {str(row[0]): row[1] for _, row in self._rows("meta", every=True)}

    def _name_the_only_run(self) -> None:
        run_ids = self._run_ids()
        if not self.runs and len(run_ids) == 1:
            self.runs[1] = run_ids.pop()

    def _rows(self, name: str, *, every: bool = False) -> Iterator[tuple[int, Values]]:
        """A table's rows by rising key, each once; `every`: also older states of the same row, in the order written."""
        leaves = []
        for image in self._leaves.get(name) or self._others.get(name) or []:
            tree = Tree(self._images.read(image), image.number)
            key = tree.first_key()
            if key is not None:
                leaves.append((0 if every else key, image.in_log, image.offset, image))
        heap: list[tuple[int, int, Values]] = []
        count, last = 0, None
        for first, _, _, image in sorted(leaves):
            while heap and heap[0][0] < first:
                key, _, row = heapq.heappop(heap)
                if key != last or every:
                    yield key, row
                last = key
            tree = Tree(self._images.read(image), image.number)
            for key, row in rows(tree, self._images.fetch):
                count += 1
                heapq.heappush(heap, (key, count, row))
        while heap:
            key, _, row = heapq.heappop(heap)
            if key != last or every:
                yield key, row
            last = key

    def records(self) -> Iterator[tuple[int, AnyRecord | None]]:
        """Each record once, with its number, in order of arrival; None for one of a type that isn't known here."""
        last = 0
        streams = [*map(self._records, RECORDS), *map(self._unknown, self._others)]
        for seq, record in heapq.merge(*streams, key=lambda pair: pair[0]):
            if seq != last:
                yield seq, record
            last = seq

    def _unknown(self, name: str) -> Iterator[tuple[int, None]]:
        for seq, _ in self._rows(name):
            self.unknown[name] = self.unknown.get(name, 0) + 1
            yield seq, None

    def _records(self, name: str) -> Iterator[tuple[int, AnyRecord | None]]:
        columns = {**cat.usual_catalog(), **self._tables}[name].columns
        describing = RECORDS[name].cls in DESCRIBING
        forgotten = self.chunks.first_seq if self._forgets and not describing else 0
        for seq, row in self._rows(name):
            if seq < forgotten:
                continue
            self.texts.lost.clear()
            try:
                record = cat.record_of(name, columns, row, self.runs, self.texts)
            except NOT_A_ROW:
                self.bad += 1
                continue
            if not 0 < seq < MAX_SEQ or not (describing or self.chunks.tells_of(seq, record.t)):
                self.bad += 1
                continue
            if self.texts.lost and isinstance(record, Step):
                self.without_sites += 1
                record = msgspec.structs.replace(record, sync_sites=None)
            yield seq, record
