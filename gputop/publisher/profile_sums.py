"""What the framework's profiler saw, summed: the costliest operators and kernels, copies and waits.

Fed event by event, so that whoever reads many of them can pause between two rows. Times are ns on the profiler's clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

TOP = 20
"""Operators and kernels that are named."""

MAX_NAME = 200
"""Characters kept of a name: kernels made from C++ templates have names of kilobytes."""

WAITS = frozenset(
    {
        "cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize", "cudaMemcpy", "cuCtxSynchronize",
        "cuStreamSynchronize", "cuEventSynchronize", "hipDeviceSynchronize", "hipStreamSynchronize",
        "hipEventSynchronize",
    }
)  # fmt: skip
"""Calls of the device's runtime in which the host waits for it."""

WHOLES = ("ProfilerStep#", "autograd::engine::evaluate_function")
"""What brackets operators and is none itself: a user's marks, the autograd engine's own calls."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One event. `kind` is "op" (of the host's `thread`), "call" (of the device's runtime), "kernel" or "copy"."""

    name: str
    start: int
    duration: int
    kind: str
    thread: int = 0


@dataclass(slots=True)
class Sums:
    """Sums over `steps` steps between two moments. `device`: whether there was one to be seen."""

    steps: int
    start: int
    end: int
    device: bool = False
    _ops: dict[str, list[int]] = field(default_factory=dict)
    _kernels: dict[str, list[int]] = field(default_factory=dict)
    _copies: dict[str, list[int]] = field(default_factory=dict)
    _busy: list[tuple[int, int]] = field(default_factory=list)
    _open: dict[int, list[tuple[int, list[int]]]] = field(default_factory=dict)
    _waits: int = 0

    def add(self, events: Iterable[Seen]) -> None:
        """Sum more events in, each thread's in order of their starts."""
        for event in events:
            if not self.start <= event.start < self.end:
                continue
            if event.kind == "op":
                self._operator(event)
            elif event.kind == "call":
                self._waits += event.name in WAITS
            elif event.kind == "copy":
                _count(self._copies, _copy(event.name), event.duration)
            else:
                _count(self._kernels, event.name[:MAX_NAME], event.duration)
                self._busy.append((event.start, event.start + event.duration))

    def _operator(self, event: Seen) -> None:
        """An operator's own time is its time without that of those which it calls."""
        above = self._open.setdefault(event.thread, [])
        while above and event.start >= above[-1][0]:
            above.pop()
        own = _count(self._ops, event.name[:MAX_NAME], event.duration)
        own[2] += event.duration
        if above:
            above[-1][1][2] -= event.duration
        above.append((event.start + event.duration, own))

    def fields(self) -> dict[str, Any]:
        """The fields of a `profile` record."""
        told: dict[str, Any] = {
            "steps": self.steps,
            "top_ops": [
                {"name": name, "calls": calls, "self_ns": max(0, own), "total_ns": total}
                for name, (calls, total, own) in _costliest(self._ops, 2)
                if not name.startswith(WHOLES)
            ][:TOP],
        }
        if not self.device:
            return told
        calls = sum(row[0] for row in self._kernels.values())
        total = sum(row[1] for row in self._kernels.values())
        told["top_kernels"] = [
            {"name": name, "calls": row[0], "ns": row[1]} for name, row in _costliest(self._kernels, 1)[:TOP]
        ]
        told["kernel_count"] = round(calls / max(1, self.steps))
        told["mean_kernel_ns"] = total // calls if calls else None
        told["gpu_busy_pct"] = min(100.0, 100 * _covered(self._busy) / max(1, self.end - self.start))
        told["copies"] = {name: {"calls": row[0], "ns": row[1]} for name, row in _costliest(self._copies, 1)}
        told["syncs"] = self._waits
        return told


def _copy(name: str) -> str:
    """A copy's kind as CUDA names it: "Memcpy HtoD (Pageable -> Device)" is "HtoD pageable"."""
    if name.startswith("Memset"):
        return "memset"
    words = name.replace("(", " ").replace(")", " ").lower().split()
    memory = next((one for one in ("pageable", "pinned") if one in words[2:]), "")
    return f"{name.split()[1] if len(words) > 1 else 'other'} {memory}".strip()


def _count(table: dict[str, list[int]], name: str, duration: int) -> list[int]:
    row = table.setdefault(name, [0, 0, 0])
    row[0] += 1
    row[1] += duration
    return row


def _costliest(table: dict[str, list[int]], by: int) -> list[tuple[str, list[int]]]:
    return sorted(table.items(), key=lambda item: -item[1][by])


def _covered(spans: list[tuple[int, int]]) -> int:
    """How much time some of the spans cover."""
    covered, reached = 0, 0
    for start, end in sorted(spans):
        if end > reached:
            covered += end - max(start, reached)
            reached = end
    return covered
