"""What torch's profiler has seen, as plain events: the same of every version of torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gputop.publisher.profile_sums import Seen

KINDS = {
    "cpu_op": "op", "user_annotation": "op", "cuda_runtime": "call", "cuda_driver": "call", "kernel": "kernel",
    "concurrent_kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "copy",
}  # fmt: skip
"""Kinds of events, by what torch's profiler calls them; the others are of no interest."""


def seen(events: Iterable[Any]) -> Iterator[Seen]:
    """Torch's events as plain ones. Versions before `activity_type` and `start_ns` are read by names and in us."""
    for event in events:
        name = event.name()
        if hasattr(event, "activity_type"):
            kind = KINDS.get(event.activity_type())
        elif int(event.device_type()) == 0:
            kind = "call" if name.startswith(("cuda", "hip", "cu")) and name[-1:].isalpha() else "op"
        else:
            kind = "copy" if name.startswith("Mem") else "kernel" if "#" not in name else None
        if kind is None:
            continue
        if hasattr(event, "start_ns"):
            start, duration = event.start_ns(), event.duration_ns()
        else:
            start, duration = event.start_us() * 1000, event.duration_us() * 1000
        yield Seen(name, start, duration, kind, event.start_thread_id())
