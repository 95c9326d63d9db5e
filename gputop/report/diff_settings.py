"""Settings that are not the same on both sides of a comparison."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gputop.report.diff_side import Side


class Change(msgspec.Struct, frozen=True):
    """A setting that is not the same on both sides; None is not known."""

    what: str
    a: Any
    b: Any


def changes(a: Side, b: Side) -> Iterator[Change]:
    """Settings that differ, as far as both sides have such a record at all."""
    for what, one, other in _settings(a, b):
        if one != other and (one is not None or other is not None):
            yield Change(what, one, other)


_LOADER = (
    ("num_workers", "loader workers"), ("batch_size", "loader batch size"), ("prefetch_factor", "prefetch factor"),
    ("pin_memory", "pin_memory"), ("persistent_workers", "persistent_workers"), ("in_order", "in_order"),
    ("drop_last", "drop_last"), ("start_method", "worker start method"), ("dataset", "dataset"),
    ("dataset_path_fs", "dataset's file system"),
)  # fmt: skip
_OF_WORKERS = ("prefetch_factor", "persistent_workers", "in_order", "start_method")
"""Settings that mean nothing without workers."""

_MODEL = (
    ("name", "model"), ("param_count", "parameters"), ("dtypes", "parameter types"), ("autocast", "autocast"),
    ("compiled", "compiled"), ("matmul_tf32", "matmul TF32"), ("optimizer", "optimizer"),
    ("optimizer_fused", "fused optimizer"),
)  # fmt: skip
_RUN = (
    ("script", "script"), ("device", "device"), ("world_size", "world size"), ("cores_allowed", "cores allowed"),
    ("framework", "framework"), ("framework_version", "framework version"), ("python", "Python"),
    ("gputop_version", "gputop"), ("hooks", "hooks"),
)  # fmt: skip
"""Settings that are compared: the record's field, and what it is called."""


def _settings(a: Side, b: Side) -> Iterator[tuple[str, Any, Any]]:
    for record, fields in (("loader", _LOADER), ("model", _MODEL), ("run", _RUN)):
        here, there = getattr(a, record), getattr(b, record)
        if here is None or there is None:
            continue
        for field, what in fields:
            if field not in _OF_WORKERS or (here.num_workers and there.num_workers):
                yield what, getattr(here, field), getattr(there, field)
    if a.loader is None or b.loader is None or a.loader.batch_size == b.loader.batch_size:
        yield "mean batch", _rounded(a.figures.batch), _rounded(b.figures.batch)
    yield "GPU", a.gpu_name, b.gpu_name


def _rounded(batch: float | None) -> float | None:
    return None if batch is None else round(batch, 1)
