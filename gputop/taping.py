"""Taping: what comes in, and what is concluded from it, handed to a recorder that has a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop.recording.state import RecordingState
from gputop.records import Record
from gputop.watching import Watch

if TYPE_CHECKING:
    from gputop.recording.recorder import Recorder

CLOSE_S = 2.0
"""How long a recorder may take for its last words."""


class Taping:
    """At most one recorder at a time. Only `stop` and `close` end one; none of the rest waits."""

    def __init__(self) -> None:
        self._recorder: Recorder | None = None
        self._endings: list[threading.Thread] = []

    def begin(self, recorder: Recorder, watch: Watch) -> None:
        """Hand everything to this recorder from now on, what is known already first. One before it ends."""
        self.stop()
        recorder.add(known(watch))
        self._recorder = recorder

    def add(self, records: Sequence[Record]) -> None:
        """Hand over what came in, or was concluded."""
        if self._recorder is not None and records:
            self._recorder.add(records)

    def state(self) -> RecordingState | None:
        """How the recording fares; None where nothing is recorded."""
        return self._recorder.state() if self._recorder is not None else None

    def active(self) -> bool:
        """Whether a recorder has yet to write its last words."""
        return self._recorder is not None or any(one.is_alive() for one in self._endings)

    def stop(self) -> None:
        """End the recording; its file is complete soon after."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            self.dismiss(recorder)

    def dismiss(self, recorder: Recorder) -> None:
        """Let a recorder write its last words on a thread of its own: its disk may not answer."""
        ending = threading.Thread(target=recorder.close, args=(CLOSE_S,), name="gputop-recorder-end", daemon=True)
        ending.start()
        self._endings = [*(one for one in self._endings if one.is_alive()), ending]

    def close(self) -> None:
        """End the recording and wait, at most CLOSE_S, until its file is complete."""
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            recorder.close(CLOSE_S)
        for ending in self._endings:
            ending.join(CLOSE_S)


def known(watch: Watch) -> list[Record]:
    """What is known before anything new comes: what the runs are made of, how samplers fare, what was concluded."""
    timeline = watch.timeline
    out: list[Record] = [track.run for track in timeline.runs.values()]
    for track in timeline.runs.values():
        out += [*track.loaders.values()]
        out += [one for one in (track.model, track.profile, track.alive) if one is not None]
    return [*out, *timeline.samplers.values(), *watch.verdicts.values()]
