"""The recording that is being made: how long, how large, and whether it is in trouble."""

from __future__ import annotations

from gputop.recording.state import RecordingState
from gputop.records import clean
from gputop.tui import figures
from gputop.tui.lines import Line, Span, fit, right
from gputop.view import View

WIDE, NARROW = 24, 14
"""Cells of the indicator where a screen has 100 columns, and where it has fewer."""


def width_of(view: View, width: int) -> int:
    """Cells that the indicator takes in the header; none while nothing is recorded."""
    if view.recording is None or width < 60:
        return 0
    return WIDE if width >= 100 else NARROW


def indicator(view: View, width: int) -> Line:
    """ "● REC 12 s · 1.2 MB"; in trouble, what it waits for."""
    state = view.recording
    if state is None or width <= 0:
        return fit([], width)
    if state.state == "recording":
        size = figures.file_size(state.bytes)
        lasted = f"{figures.held(view.now_ns - state.since_ns)} · " if width >= WIDE else ""
        return right([Span("● REC ", "tone.bad"), Span(f"{lasted}{size} ")], width)
    sign, style = ("! REC ", "tone.bad") if state.state == "waiting" else ("○ REC ", "tone.warn")
    return right([Span(sign, style), Span(f"{clean(state.state, 10)} ", style)], width)


def trouble(state: RecordingState | None) -> str:
    """Why nothing is recorded now, in a sentence; "" while all is well."""
    if state is None or state.state == "recording":
        return ""
    lead = "recording waits" if state.state == "waiting" else "recording ended"
    return f"{lead}: {clean(state.why, 200)}" if state.why else lead


def summary(state: RecordingState, now_ns: int) -> str:
    """The recording in words, for the page of sources."""
    parts = [
        clean(state.path, 120), f"for {figures.seconds(max(0, now_ns - state.since_ns) / 1e9)}",
        f"{figures.file_size(state.bytes)} on disk",
        figures.counted(state.steps, "step"),
        f"{figures.counted(state.dropped, 'record')} lost" if state.dropped else "", trouble(state),
    ]  # fmt: skip
    return ", ".join(part for part in parts if part)
