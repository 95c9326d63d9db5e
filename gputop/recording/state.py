"""How a recording fares, as the screen and `gputop record` say it."""

from __future__ import annotations

import msgspec


class RecordingState(msgspec.Struct, frozen=True, kw_only=True):
    """A recording at one moment.

    `state` is "recording", "waiting" (it can't write now and tries again) or "ended". `why` says in a sentence why it
    waits or has ended; None while all is well. `said` are the sentences so far, oldest first: what went wrong, when it
    went on, and where to; at most the latest 32.
    """

    path: str
    since_ns: int
    bytes: int = 0
    """Size of the file with its journal."""
    steps: int = 0
    """Train steps handed to the file, and to those before it that were moved or deleted."""
    steps_here: int | None = None
    """Of these, the ones in the file at `path`, where it is not the first; None: all."""
    dropped: int = 0
    """Records given up because they could not be written in time; each hole is a `gap` event in the file."""
    state: str = "recording"
    why: str | None = None
    said: tuple[str, ...] = ()
