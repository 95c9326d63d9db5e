"""The verdict over time and the marks of events, both on the shared axis."""

from __future__ import annotations

from itertools import groupby

from gputop.tui.draw.series import on_axis
from gputop.tui.glyphs import MARKS, RIBBON, family_of
from gputop.tui.lines import Line, Span, fit
from gputop.view import RunView, View


def ribbon(run: RunView, view: View, cells: int) -> Line:
    """One stretch a verdict, in its family's texture."""
    spans = []
    for cause, group in groupby(on_axis(run.cause_history, view, cells)):
        many = len(list(group))
        if cause is None:
            spans.append(Span(" " * many))
        else:
            family = family_of(cause)
            spans.append(Span(RIBBON[family] * many, f"family.{family}"))
    return fit(spans, cells)


def story(run: RunView, view: View, cells: int, room: int) -> str:
    """The last verdicts in words, oldest first: "warmup → input-workers", as many as `room` cells hold."""
    causes = [cause for cause, _ in groupby(c for c in on_axis(run.cause_history, view, cells) if c is not None)]
    texts = [" → ".join(causes[-many:]) for many in (3, 2, 1)]
    return next((text for text in texts if len(text) <= room), texts[-1])


def marks(run: RunView | None, view: View, cells: int) -> str:
    """A letter for each event in the columns shown; where two meet, "+"."""
    out = [" "] * cells
    if view.column_ns <= 0:
        return "".join(out)
    open_now = (view.last_column + 1) * view.column_ns > view.now_ns
    last = view.last_column - (1 if open_now else 0)
    for event in view.events:
        if event.run_id is not None and (run is None or event.run_id != run.run.run_id):
            continue
        if event.gpu_uuid is not None and run is not None and event.gpu_uuid != (run.gpu_uuid or event.gpu_uuid):
            continue
        cell = cells - 1 - (last - event.t // view.column_ns)
        letter = MARKS.get(event.kind)
        if letter and 0 <= cell < cells:
            out[cell] = letter if out[cell] in (" ", letter) else "+"
    return "".join(out)


def legend(run: RunView | None, view: View, cells: int) -> list[str]:
    """What the marks shown mean."""
    shown = set(marks(run, view, cells)) - {" "}
    names: dict[str, str] = {}
    for kind, letter in MARKS.items():
        if letter in shown and any(event.kind == kind for event in view.events):
            names.setdefault(letter, kind.replace("_", " "))
    return [f"{letter} {name}" for letter, name in names.items()] + (["+ several"] if "+" in shown else [])
