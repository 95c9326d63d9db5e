"""Errands: what a key asks of the picture that is answered later: a recording, a profile, a look from outside."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

from gputop.records import clean
from gputop.tui import keeping, offering
from gputop.tui.aside import aside
from gputop.tui.draw.sight import chosen
from gputop.tui.options import Picture
from gputop.view import View

PROFILED_STEPS = 10
"""Steps that a profile on request covers: some kilobytes of answer, and rarely more than some seconds."""

REFUSED_S = 10.0
"""How long it is shown why a process can't be attached to."""


class Errands:
    """`say` puts a sentence into the last line, for some seconds; `moved` has the picture looked at anew, soon; `call`
    has the app's own thread do something."""

    def __init__(
        self,
        say: Callable[..., object],
        moved: Callable[[], object],
        call: Callable[[Callable[[], object]], object],
    ) -> None:
        self._say, self._moved, self._call = say, moved, call
        self._opening = False

    def record(self, picture: Picture, view: View, *, cmdlines: bool) -> None:
        """Begins a recording, or ends the one that is made."""
        if view.cursor is not None and view.cursor.replay:
            self._say("this is a recording already; R records what is live")
        elif view.recording is not None and view.recording.state != "ended":
            picture.stop_recording()
            self._moved()
            self._say(f"recorded into {keeping.short(Path(view.recording.path))}; see gputop report")
        elif not self._opening:
            self._opening = True
            aside(partial(self._begin, picture, cmdlines))

    def _begin(self, picture: Picture, cmdlines: bool) -> None:
        """Opens the file on a thread of its own: a disk may take its time."""
        answer = keeping.begin_recording(picture, cmdlines=cmdlines)
        self._call(partial(self._began, answer))

    def _began(self, answer: str) -> None:
        self._opening = False
        self._moved()
        self._say(answer)

    def profile(self, picture: Picture, view: View, run_id: str | None) -> None:
        """Asks the training shown to profile itself."""
        run = chosen(view, run_id)
        refusal = keeping.why_no_profile(run, view)
        if refusal or run is None:
            self._say(refusal)
            return
        picture.select(run.run.run_id)
        picture.profile(PROFILED_STEPS)
        self._say(f"asked pid {run.run.pid} to profile its next {PROFILED_STEPS} steps: w shows the answer")

    def attach(self, picture: Picture, view: View, run_id: str | None) -> None:
        """Watches the process that the screen offers."""
        process = offering.attachable(view, run_id)
        if process is None:
            self._say(offering.why_none(view))
            return
        picture.attach(process.pid, lambda why: self._call(partial(self._say, clean(why, 300), REFUSED_S)))
        self._moved()
        self._say(f"watching process {process.pid} by samples of its stacks: the first in some seconds")
