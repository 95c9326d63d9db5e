"""The pages of a recording and of the log beside it, wherever they begin and however much of them is left."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from gputop.recording.header import MAGIC
from gputop.recording.pages import LEAF, PAGE_SIZES, Bad, Tree

SAMPLED = 200
"""Pages looked at to learn where pages begin and how long they are."""

SEARCHED = 4 * 1024 * 1024
"""Bytes searched for a page where none begins where it should."""

LOG_HEADER, FRAME_HEADER = 32, 24
LOG_MAGIC = (0x377F0682, 0x377F0683)


class Image(NamedTuple):
    """One state of a page: in the file, or in a frame of the log. Compares by place."""

    number: int
    in_log: bool
    offset: int


class Images:
    """A file's pages, and those in its log. Nothing is written. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = open(path, "rb")  # noqa: SIM115
        self._log: BinaryIO | None = None
        with suppress(OSError):
            self._log = open(f"{path}-wal", "rb")  # noqa: SIM115
        self.page_size, self._start = self._layout(os.fstat(self._file.fileno()).st_size)
        size = os.fstat(self._file.fileno()).st_size
        self.count = -(-(size - self._start) // self.page_size) if self.page_size else 0
        self.log_damaged = 0
        self.frames: list[Image] = list(self._frames()) if self._log is not None else []
        self.latest = {image.number: image for image in self.frames}

    def __enter__(self) -> Images:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
        if self._log is not None:
            self._log.close()

    @property
    def has_log(self) -> bool:
        """Whether there is a log with anything in it beside the file."""
        return self._log is not None and os.fstat(self._log.fileno()).st_size > 0

    def ignore_log(self) -> None:
        """Take the log for another file's."""
        self.frames, self.latest = [], {}

    def read(self, image: Image) -> bytes:
        """The page's bytes; what is missing at the file's ends is filled with zeros."""
        file = self._log if image.in_log and self._log is not None else self._file
        missing = max(0, -image.offset)
        data = os.pread(file.fileno(), max(0, self.page_size - missing), image.offset + missing)
        return (b"\0" * missing + data).ljust(self.page_size, b"\0")

    def main(self, number: int) -> Image | None:
        """The page of a number in the file; None when the file has not so many."""
        if not 1 <= number <= self.count:
            return None
        return Image(number, False, self._start + (number - 1) * self.page_size)

    def newest(self, number: int) -> Image | None:
        """The page of a number as SQLite would take it: from the log if it is there."""
        return self.latest.get(number) or self.main(number)

    def fetch(self, number: int) -> bytes | None:
        """The bytes of the newest page of a number."""
        image = self.newest(number)
        return self.read(image) if image is not None else None

    def all(self) -> Iterator[Image]:
        """Every page there is: the file's, then the log's, also those that newer ones replace."""
        for number in range(1, self.count + 1):
            image = self.main(number)
            if image is not None:
                yield image
        yield from self.frames

    def _layout(self, size: int) -> tuple[int, int]:
        """How long a page is and where page 1 begins; (0, 0) when there are none.

        Told by the leaves themselves, since a file's head may be overwritten or cut off: their rows end where they do.
        """
        head = os.pread(self._file.fileno(), 100, 0)
        said = int.from_bytes(head[16:18], "big") if head.startswith(MAGIC) else 0
        said = 65536 if said == 1 else said
        tries = [(said, 0)] if said in PAGE_SIZES else []
        for page_size in PAGE_SIZES:
            tries += [(page_size, start) for start in dict.fromkeys((0, size % page_size - page_size)) if start <= 0]
        scores = {one: self._score(*one, size) for one in dict.fromkeys(tries)}
        best = max(tries, key=lambda one: scores[one])
        if scores[best] > 0:
            return best
        if (start := self._first_leaf(usual := PAGE_SIZES[0], size)) is not None:
            return usual, start % usual - usual
        if said in PAGE_SIZES:
            return said, 0
        return (self._log_page_size(), 0)

    def _first_leaf(self, page_size: int, size: int) -> int | None:
        """Where some leaf of the usual size begins, in a file whose pages lie on no multiple of it any more."""
        data = os.pread(self._file.fileno(), min(size, SEARCHED), 0)
        at = data.find(LEAF)
        while 0 <= at <= len(data) - page_size:
            with suppress(Bad, struct.error):
                if Tree(page := data[at : at + page_size], 2).cells and Tree(page, 2).end() == page_size:
                    return at
            at = data.find(LEAF, at + 1)
        return None

    def _score(self, page_size: int, start: int, size: int) -> float:
        """How many of the sampled pages are leaves that end where they should, for each that was looked at."""
        count = (size - start) // page_size
        every = max(1, count // SAMPLED)
        hits = looked = 0
        for index in range(1 if start < 0 else 0, count, every):
            page = os.pread(self._file.fileno(), page_size, start + index * page_size)
            looked += 1
            if len(page) == page_size:
                with suppress(Bad, struct.error):
                    tree = Tree(page, index + 1)
                    hits += tree.kind == LEAF and tree.end() == page_size
        return hits / looked if looked else 0.0

    def _log_page_size(self) -> int:
        if self._log is None:
            return 0
        size = int.from_bytes(os.pread(self._log.fileno(), 4, 8), "big")
        return size if size in PAGE_SIZES else 0

    def _frames(self) -> Iterator[Image]:
        """The frames of the log that are whole, of its last use, and committed.

        A frame's checksum goes on from that of the frame before, as it is written there: so a damaged one costs itself,
        and where its head is damaged the next, not all that follow. See "WAL File Format" on the format's page.
        """
        assert self._log is not None
        descriptor = self._log.fileno()
        head = os.pread(descriptor, LOG_HEADER, 0)
        if len(head) < LOG_HEADER or not self.page_size:
            return
        magic, _, page_size, _, *salts, _, _ = struct.unpack(">8I", head)
        big = magic == LOG_MAGIC[1]
        whole = magic in LOG_MAGIC and checksum(head[:24], (0, 0), big) == struct.unpack(">2I", head[24:])
        if whole and page_size != self.page_size:
            return
        before = struct.unpack(">2I", head[24:])
        waiting: list[Image] = []
        at = LOG_HEADER
        while len(frame := os.pread(descriptor, FRAME_HEADER + self.page_size, at)) == FRAME_HEADER + self.page_size:
            number, commit, *given, one, two = struct.unpack(">6I", frame[:FRAME_HEADER])
            if not whole:
                salts, whole = given, True
            if given == salts and number > 0:
                if checksum(frame[:8] + frame[FRAME_HEADER:], before, big) == (one, two):
                    waiting.append(Image(number, True, at + FRAME_HEADER))
                    if commit:
                        yield from waiting
                        waiting = []
                else:
                    self.log_damaged += 1
            before = (one, two)
            at += len(frame)


def checksum(data: bytes, before: tuple[int, int], big: bool) -> tuple[int, int]:
    """The log's running checksum over `data`, whose length is a multiple of eight bytes."""
    one, two = before
    words = struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two
