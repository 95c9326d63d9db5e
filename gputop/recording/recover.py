"""Saves what can be saved of a damaged recording, into a new one. The damaged file is only read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import msgspec

from gputop.recording.errors import Unreadable
from gputop.recording.header import application_id, first_bytes
from gputop.recording.images import Images
from gputop.recording.pages import Tree, rows
from gputop.recording.rewriting import new_file, write_anew
from gputop.recording.salvage import Salvage
from gputop.recording.schema import APPLICATION_ID
from gputop.recording.unfinished import undone
from gputop.records import SCHEMA, AnyRecord

MOST_GAPS = 1000
"""Gaps named; of more only the first are."""

NEAR_NS = 3_000_000_000
"""Gaps that lie no further apart than this are told as one: a lost page takes every so many records."""


class Gap(msgspec.Struct, frozen=True):
    """Records that are missing: how many, and the times of those before and after; None at the recording's ends."""

    count: int
    from_ns: int | None
    to_ns: int | None


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What was saved, by record type, and what is missing. `whole`: nothing is, as far as can be told."""

    saved: dict[str, int]
    from_ns: int | None
    to_ns: int | None
    missing: int = 0
    gaps: tuple[Gap, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        """Whether nothing is missing, as far as can be told."""
        return not self.missing and not self.warnings

    def with_warnings(self, warnings: list[str]) -> Recovery:
        """The same with these warnings."""
        return msgspec.structs.replace(self, warnings=tuple(warnings))


class Count:
    """Counts records as they pass, and notes where numbers are missing between them."""

    def __init__(self, first_seq: int, progress: Callable[[float], None], last_seq: int) -> None:
        self.missing = 0
        self.gaps: list[Gap] = []
        self.from_ns: int | None = None
        self.to_ns: int | None = None
        self._next = first_seq
        self._last_seq = last_seq
        self._before: int | None = None
        self._progress = progress

    def through(self, found: Iterable[tuple[int, AnyRecord | None]]) -> Iterator[AnyRecord]:
        """Pass the records on."""
        for seq, record in found:
            t = record.t if record is not None else self._before
            if seq > self._next:
                self._gap(seq - self._next, t)
            self._next = max(self._next, seq + 1)
            self._before = t
            if record is None:
                continue
            self.from_ns = record.t if self.from_ns is None else min(self.from_ns, record.t)
            self.to_ns = record.t if self.to_ns is None else max(self.to_ns, record.t)
            if seq % 1024 == 0 and self._last_seq:
                self._progress(seq / self._last_seq)
            yield record
        if self._next <= self._last_seq:
            self._gap(self._last_seq + 1 - self._next, None)

    def _gap(self, count: int, t: int | None) -> None:
        self.missing += count
        last = self.gaps[-1] if self.gaps else None
        if last is not None and last.to_ns is not None and (self._before or 0) - last.to_ns <= NEAR_NS:
            self.gaps[-1] = Gap(last.count + count, last.from_ns, t)
        elif len(self.gaps) < MOST_GAPS:
            self.gaps.append(Gap(count, self._before, t))


def recover(
    path: Path, out: Path, *, force: bool = False, progress: Callable[[float], None] = lambda share: None
) -> Recovery:
    """Write what is left of a recording into a new one.

    Raises Unreadable (nothing is left, or it is something else), FileExistsError (`out` exists) and OSError.
    """
    own = application_id(first_bytes(path)) == APPLICATION_ID
    with undone(path, out.parent) as (found, undoing), Images(found) as images:
        if not images.page_size:
            raise Unreadable(f"{path} holds nothing of a recording: there is nothing to save")
        warnings = undoing + _of_the_log(images, path)
        left = Salvage(images)
        _refuse(left, path, own=own)
        count = Count(left.chunks.first_seq, progress, left.chunks.last_seq)
        with new_file(out, path, force=force) as partial:
            saved = write_anew(count.through(left.records()), partial)
            if not saved:
                raise _nothing(path, begun=own and not left.chunks.last_seq)
        warnings += _of_the_rows(left, images, path)
        return Recovery(
            saved=dict(saved), from_ns=count.from_ns, to_ns=count.to_ns, missing=count.missing,
            gaps=tuple(count.gaps), warnings=tuple(warnings),
        )  # fmt: skip


def rescue(path: Path, records: Iterable[AnyRecord], out: Path, *, force: bool = False) -> Recovery:
    """Write the records of a trace, as far as it can be read, into a recording. Raises as `recover`, and as they do."""
    count = Count(1, lambda share: None, 0)
    with new_file(out, path, force=force) as partial:
        saved = write_anew(count.through(enumerate(records, 1)), partial)
    return Recovery(saved=dict(saved), from_ns=count.from_ns, to_ns=count.to_ns)


def _refuse(left: Salvage, path: Path, *, own: bool) -> None:
    schema = left.meta.get("schema")
    if left.foreign and not own:
        raise Unreadable(f"{path} is an SQLite file, but not a recording of gputop")
    if left.foreign or left.empty:
        raise _nothing(path, begun=own)
    if isinstance(schema, int) and schema > SCHEMA:
        raise Unreadable(
            f"{path} is of schema {schema}, this gputop reads up to {SCHEMA}; upgrade it: pip install -U gputop-live"
        )


def _nothing(path: Path, *, begun: bool) -> Unreadable:
    """What to say of a file of which nothing can be saved; `begun`: it looks like a recording that was hardly begun."""
    if not begun:
        return Unreadable(f"{path} holds no record that can be read: there is nothing to save")
    log = "holds none either" if Path(f"{path}-wal").exists() else "is not beside it"
    return Unreadable(
        f"{path} holds no record: its recorder was ended as it began, or all there was is in {path.name}-wal, "
        f"which {log}: there is nothing to save"
    )


def _of_the_log(images: Images, path: Path) -> list[str]:
    """What the log beside the file is worth; another recording's is left aside."""
    if not images.has_log:
        return []
    warnings = []
    if images.log_damaged:
        warnings.append(f"{images.log_damaged} pages of {path}-wal are damaged")
    own, logs = _created(images, in_log=False), _created(images, in_log=True)
    if own and logs and not own & logs:
        images.ignore_log()
        warnings.append(f"{path}-wal belongs to another recording and was left aside")
    elif not images.frames:
        warnings.append(f"{path}-wal holds nothing that can be read")
    return warnings


def _created(images: Images, *, in_log: bool) -> set[object]:
    """When the recording says it was begun, on the page that every transaction writes."""
    out: set[object] = set()
    main = images.main(META_PAGE)
    pages = [image for image in images.frames if image.number == META_PAGE] if in_log else [main] if main else []
    for image in pages:
        try:
            found = rows(Tree(images.read(image), image.number), images.fetch)
            out |= {row[1] for _, row in found if len(row) == 2 and row[0] == "created_ns"}
        except ValueError:
            continue
    return out


META_PAGE = 2
"""Where the table `meta` lies: it is the first that is made."""


def _of_the_rows(left: Salvage, images: Images, path: Path) -> list[str]:
    """What was lost besides missing numbers, and what may have been."""
    warnings = []
    if not left.whole:
        warnings.append("the file is damaged: its records were gathered page by page")
    if "writer" in left.meta and "closed_ns" not in left.meta and not images.has_log:
        warnings.append(
            f"the recording was not closed and there is no {path.name}-wal beside it: "
            "what was recorded last, a minute or so, may have been in that"
        )
    if left.bad:
        warnings.append(f"{left.bad} damaged records were left out")
    if left.runs.lost:
        names = ", ".join(f"unknown-{number}" for number in sorted(left.runs.lost)[:8])
        warnings.append(f"the names of {len(left.runs.lost)} runs are lost; they are called {names}")
    if left.without_sites:
        warnings.append(f"the lines that {left.without_sites} steps waited at are lost")
    for name, number in Counter(left.unknown).items():
        warnings.append(f"{number} records of type {name!r}, which this version does not know, were left out")
    return warnings
