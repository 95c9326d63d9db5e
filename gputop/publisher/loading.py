"""A loader's configuration as a record, as far as the object tells it."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gputop.publisher.dataset import Place
from gputop.publisher.segment import Source
from gputop.records import Loader

COUNTED = "_IterableDataset_len_called"
"""Where torch's loader keeps that it was asked for its length: with it, it warns when more comes."""

NOWHERE = Place()

STREAM = 1
"""What torch calls a data set that is gone through without indices."""


def loader_record(
    run_id: str, t: int, loader: Any, source: Source, worker_pids: list[int] | None, place: Place = NOWHERE
) -> Loader:
    """The record of a loader, torch's or any other."""

    def known(name: str, kind: type) -> Any:
        value = getattr(loader, name, None)
        return value if isinstance(value, kind) else None

    context = getattr(loader, "multiprocessing_context", None)
    workers = known("num_workers", int)
    dataset = getattr(loader, "dataset", None)
    return Loader(
        t=t,
        run_id=run_id,
        loader_id=source.loader_id or 0,
        num_workers=workers,
        prefetch_factor=known("prefetch_factor", int),
        pin_memory=known("pin_memory", bool),
        persistent_workers=known("persistent_workers", bool),
        in_order=known("in_order", bool),
        batch_size=known("batch_size", int),
        drop_last=known("drop_last", bool),
        start_method=_start_method(context) if workers else None,
        worker_pids=worker_pids,
        dataset=dataset if isinstance(dataset, str) else type(dataset).__name__ if dataset is not None else None,
        dataset_path_fs=place.file_system,
        dataset_disk=place.disk,
        iterable=_iterable(loader),
        batches=_batches(loader),
    )


def _iterable(loader: Any) -> bool | None:
    """Whether torch's loader goes through its data set as through a stream; None of other loaders."""
    kind = getattr(loader, "_dataset_kind", None)
    return kind == STREAM if isinstance(kind, int) else None


def _batches(loader: Any) -> int | None:
    with _uncounted(loader):
        try:
            return len(loader)
        except Exception:
            return None


@contextmanager
def _uncounted(loader: Any) -> Iterator[None]:
    """The loader forgets that it was asked for its length."""
    held = getattr(loader, "__dict__", {})
    before = held.get(COUNTED, held)
    try:
        yield
    finally:
        if before is not held and held.get(COUNTED) is not before:
            held[COUNTED] = before


def _start_method(context: Any) -> str | None:
    if context is not None:
        return str(context.get_start_method())
    return multiprocessing.get_start_method(allow_none=True)


def content(record: Loader | None) -> Any:
    """What a record says, to tell whether anything has changed."""
    if record is None:
        return None
    return [getattr(record, name) for name in record.__struct_fields__ if name not in ("t", "run_id")]
