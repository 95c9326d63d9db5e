"""The first line: what is watched, how fast it goes, and whether the picture is live."""

from __future__ import annotations

from gputop.records import clean
from gputop.tui import figures
from gputop.tui.draw import transport
from gputop.tui.draw.sight import Sight, calm_of, chosen, is_simulated, name_of, rank_of
from gputop.tui.lines import Line, Span, crop, fit, pieces, right
from gputop.view import Cursor


def identity(sight: Sight, width: int) -> Line:
    """Host, script, rank and pid: what seldom changes."""
    run = chosen(calm_of(sight), sight.run_id)
    spans = [Span(" gputop", "title"), Span("  ")]
    room = width - 9
    if is_simulated(calm_of(sight), run):
        spans += [Span("simulated GPU", "tone.warn"), Span("  ")]
        room -= 15
    parts = [crop(clean(calm_of(sight).hostname or "", 64), 20)]
    if run is not None:
        parts = [name_of(run.run), rank_of(run.run), parts[0], f"pid {run.run.pid}"]
        if len(calm_of(sight).runs) > 1:
            parts.insert(1, f"run {_position(sight) + 1} of {len(calm_of(sight).runs)}")
    return fit([*spans, Span(pieces(parts, max(0, room)))], width)


def _position(sight: Sight) -> int:
    run = chosen(calm_of(sight), sight.run_id)
    return next((i for i, other in enumerate(calm_of(sight).runs) if other is run), 0)


def pace(sight: Sight, width: int) -> Line:
    """Steps done and how many a second: what changes with every look."""
    run = chosen(sight.view, sight.run_id)
    if run is None:
        return fit([], width)
    parts = [f"step {figures.count(run.steps_total)}"]
    if run.steps_per_s is not None and run.state == "training":
        parts.append(
            f"{figures.number(run.steps_per_s)} steps/s" if width >= 36 else f"{figures.number(run.steps_per_s)}/s"
        )
    if run.samples_per_s is not None and run.state == "training":
        parts.append(f"{figures.number(run.samples_per_s)} samples/s")
    return fit([Span(pieces(parts, width))], width)


def state(sight: Sight, width: int) -> Line:
    """Live, for how long; or paused, how far behind; or a replay, and how fast: the present is never in doubt."""
    view, run = sight.view, chosen(sight.view, sight.run_id)
    cursor, mode = view.cursor, transport.mode_of(view)
    if cursor is not None and mode != "live":
        return _past(cursor, mode, _STATES.get(run.state, ("",))[0] if run is not None else "", width)
    source = clean(view.source or "live", 24)
    if run is None:
        return right([Span("○ ", "dim"), Span(pieces([source, "no run"], width - 3), "dim"), Span(" ")], width)
    word, style, mark = _STATES.get(run.state, (run.state, "dim", "○"))
    began = run.first_ns if run.first_ns is not None else run.run.start_ns
    until = (run.last_ns or view.now_ns) if run.state in ("ended", "lost") else view.now_ns
    lasted = figures.held(until - began) if began is not None else ""
    return right([Span(f"{mark} ", style), Span(pieces([word or source, lasted], width - 3)), Span(" ")], width)


def _past(cursor: Cursor, mode: transport.Mode, state: str, width: int) -> Line:
    badge = " REPLAY " if cursor.replay else ""
    room = width - len(badge) - (4 if badge else 3)
    text = pieces([transport.words(cursor, mode, room), state], room)
    return right(
        [Span(badge, "selected"), Span(" " if badge else ""), transport.mark_of(mode), Span(text, "tone.warn"),
         Span(" ")], width
    )  # fmt: skip


_STATES = {
    "training": ("", "good", "●"),
    "starting": ("starting", "warn", "○"),
    "stalled": ("stalled", "bad", "●"),
    "ended": ("ended", "dim", "○"),
    "lost": ("process lost", "bad", "×"),
}
