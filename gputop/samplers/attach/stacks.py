"""From what py-spy writes to stretches of time in which a thread's stack stayed the same."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_THREAD = re.compile(r"thread \((?:(\d+)|0x[0-9A-Fa-f]+)\)(?:: (.*))?")
"""Under a Python before 3.11, which doesn't tell the system's number of a thread, py-spy gives the thread library's."""


class Frame(NamedTuple):
    """A Python frame: the function, its file in full, and the line it is at."""

    name: str
    file: str
    line: int

    def words(self) -> str:
        """As "function (file:line)"."""
        return f"{self.name} ({self.site()})"

    def site(self) -> str:
        """As "file:line"."""
        return f"{self.file.rpartition('/')[2]}:{self.line}"


class Stretch(NamedTuple):
    """Some time, in ns after the sampling began, in which a stack did not change; `frames` outermost first."""

    from_ns: int
    to_ns: int
    frames: tuple[Frame, ...]


class Thread(NamedTuple):
    """One thread's stretches, in order. `os_id` is the pid for the main thread, None where not known."""

    os_id: int | None
    name: str
    stretches: list[Stretch]


def read(data: bytes) -> list[Thread]:
    """The threads of a trace in Chrome's format: events that open and close frames. Raises ValueError."""
    events = json.loads(data)
    if isinstance(events, dict):
        events = events.get("traceEvents")
    if not isinstance(events, list):
        raise ValueError("no list of events")
    threads: dict[Any, _Reading] = {}
    for event in events:
        if not isinstance(event, Mapping) or event.get("ph") not in ("B", "E"):
            continue
        threads.setdefault(event.get("tid"), _Reading()).take(event)
    return [thread.done() for thread in threads.values()]


class _Reading:
    """One thread as its events are read."""

    def __init__(self) -> None:
        self._os_id: int | None = None
        self._name = ""
        self._open: list[Frame] = []
        self._t = 0
        self._stretches: list[Stretch] = []

    def take(self, event: Mapping[str, Any]) -> None:
        t = int(event["ts"]) * 1000
        if t > self._t:
            self._close(t)
        self._t = t
        name = str(event.get("name", ""))
        if (thread := _THREAD.fullmatch(name)) is not None:
            self._os_id, self._name = int(thread[1]) if thread[1] else None, thread[2] or ""
        elif event["ph"] == "B":
            args = event.get("args") or {}
            self._open.append(Frame(name, str(args.get("filename", "")), int(args.get("line") or 0)))
        elif self._open:
            self._open.pop()

    def _close(self, t: int) -> None:
        if self._open:
            self._stretches.append(Stretch(self._t, t, tuple(self._open)))

    def done(self) -> Thread:
        return Thread(self._os_id, self._name, self._stretches)


def main_thread(threads: list[Thread], pid: int) -> Thread | None:
    """The thread in which a training runs: the main one, else the one of that name; None where neither was seen."""
    by_id = next((one for one in threads if one.os_id == pid), None)
    return by_id or next((one for one in threads if one.name == "MainThread"), None)
