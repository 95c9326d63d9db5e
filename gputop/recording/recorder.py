"""The recorder: a thread of its own that puts records into a file once a second and survives what disks do."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from gputop.recording.state import RecordingState
from gputop.records import Record


class Recorder:
    """Records to one path. `add` and `state` return at once whatever the disk does.

    A file that was recorded before is continued. What is already known of the runs when recording begins (their latest
    `run`, `loader` and `model` records) must be the first that is added.
    """

    def __init__(
        self,
        path: Path,
        *,
        cmdlines: bool = True,
        max_bytes: int | None = None,
        keep_ns: int | None = None,
        floor_bytes: int | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Open the file. Raises Busy, Unreadable or OSError when it can't be recorded to.

        `max_bytes` ends the recording at this size, `keep_ns` forgets what is older, `floor_bytes` pauses it while less
        is free on the disk (None: 200 MB, or a twentieth of a small disk).
        """
        raise NotImplementedError

    def start(self) -> Recorder:
        """Begin to write what is added."""
        raise NotImplementedError

    def add(self, records: Sequence[Record]) -> None:
        """Take records in arrival order. Never blocks; what finds no room is counted and becomes a `gap` event."""
        raise NotImplementedError

    def state(self) -> RecordingState:
        """How it fares now."""
        raise NotImplementedError

    def close(self, timeout_s: float = 2.0) -> None:
        """Write what is left and leave one plain file; with a disk that doesn't answer, leave after `timeout_s`."""
        raise NotImplementedError
