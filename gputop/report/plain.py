"""The plain stream: a line when a verdict changes, for logs, `tee`, screen readers and dumb terminals."""

from __future__ import annotations

import time
from collections.abc import Iterator

from gputop.figures import counted
from gputop.records import clean
from gputop.report.text import gpu_line, run_title, sampler_line, verdict_line
from gputop.view import View

PATIENCE_NS = 3_000_000_000
"""What goes on already is heard of within this long; before, it isn't said that there is nothing."""


class PlainStream:
    """Turns views into lines, saying each thing once."""

    def __init__(self) -> None:
        self._causes: dict[str, tuple[str, bool]] = {}
        self._states: dict[str, str] = {}
        self._said: set[str] = set()
        self._since_ns: int | None = None

    def lines(self, view: View) -> Iterator[str]:
        """What is new since the last view."""
        when = time.strftime("%H:%M:%S", time.localtime(view.now_ns / 1e9))
        mark = " [simulated GPU]" if view.simulated else ""
        for run in view.runs:
            title = run_title(run.run)
            key = (run.verdict.cause, bool(run.verdict.tentative))
            if self._causes.get(run.run.run_id) != key:
                self._causes[run.run.run_id] = key
                yield f"{when} {title}{mark}: {verdict_line(run.verdict)}"
            if run.state in ("ended", "lost") and self._states.get(run.run.run_id) != run.state:
                words = "ended" if run.state == "ended" else "its process vanished without a word"
                yield f"{when} {title}{mark}: {words} after {counted(run.steps_total, 'step')}"
            self._states[run.run.run_id] = run.state
        self._since_ns = view.now_ns if self._since_ns is None else self._since_ns
        patient = view.now_ns - self._since_ns >= PATIENCE_NS
        if not view.runs and view.waiting and patient and "waiting" not in self._said:
            self._said.add("waiting")
            yield f"{when} {clean(view.waiting, 300)}"
        for gpu in view.gpus:
            if gpu.gpu.gpu_uuid not in self._said:
                self._said.add(gpu.gpu.gpu_uuid)
                yield f"{when}{mark} {gpu_line(gpu.gpu)}"
        for sampler in view.samplers:
            text = f"{sampler.backend} {sampler.state}"
            if sampler.state != "ok" and text not in self._said:
                self._said.add(text)
                yield f"{when} {sampler_line(sampler)}"
        for warning in view.warnings:
            if warning not in self._said:
                self._said.add(warning)
                yield f"{when} note: {clean(warning, 300)}"
