"""What a headless recorder says, a line at a time with date and time, for a terminal or a log."""

from __future__ import annotations

import time
from pathlib import Path

from gputop.figures import count, counted, size, span
from gputop.recording.state import RecordingState
from gputop.records import clean
from gputop.report.plain import PlainStream
from gputop.view import View

LONG = 4000
"""Characters of a line that are written: more than any has."""


class Journal:
    """Says each thing once. A log that can't be written (a full disk, a reader gone) never ends the recording."""

    def __init__(self) -> None:
        self._plain = PlainStream()
        self._said: set[str] = set()
        self._runs: set[str] = set()
        self._mute = False

    def began(self, path: Path, fresh: bool, until: str) -> None:
        """The first line."""
        self._say(f"{_now()} {'recording to' if fresh else 'going on with the recording'} {path}, {until}")

    def saw(self, view: View, state: RecordingState) -> None:
        """What is new: GPUs, runs, verdicts, and how the recording fares."""
        self._runs.update(run.run.run_id for run in view.runs)
        day = time.strftime("%Y-%m-%d", time.localtime(view.now_ns / 1e9))
        for line in self._plain.lines(view):
            self._say(f"{day} {line}")
        for line in state.said:
            if line not in self._said:
                self._said.add(line)
                self._say(line)

    def ended(self, state: RecordingState, seconds: float) -> None:
        """The last line: what there is, and how to look at it."""
        lost = f", {counted(state.dropped, 'record')} lost" if state.dropped else ""
        runs, steps = counted(len(self._runs), "run"), counted(state.steps, "step")
        there = Path(state.path).exists()
        tells = there and self._runs and (state.steps or not state.dropped)
        where = f"; see what held them back:  gputop report {state.path}" if tells else ""
        if there and state.steps_here is not None:
            where = f"; {count(state.steps_here)} of the steps are in the file that is left{where}"
        if not there:
            where = f"; no file is left at {state.path}"
        self._say(f"{_now()} recorded {steps} of {runs} in {span(seconds)}{lost}, {size(state.bytes)}{where}")

    def _say(self, line: str) -> None:
        if self._mute:
            return
        try:
            print(clean(line, LONG), flush=True)
        except BrokenPipeError:
            self._mute = True
        except OSError:
            return


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
