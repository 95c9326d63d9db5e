"""Several runs in one line: which is shown, and the verdict on each."""

from __future__ import annotations

from gputop.records import clean
from gputop.tui.draw.sight import Sight, calm_of, chosen, name_of, rank_of
from gputop.tui.glyphs import tone_of
from gputop.tui.lines import Line, Span, fit
from gputop.view import RunView


def strip(sight: Sight, width: int) -> Line:
    """The runs side by side, the chosen one always among those that fit."""
    runs = calm_of(sight).runs
    run = chosen(calm_of(sight), sight.run_id)
    at = next((index for index, other in enumerate(runs) if other is run), 0)
    first = at
    used = len(_text(runs[at])) + 5 if runs else 0
    while first > 0 and used + len(_text(runs[first - 1])) + 5 <= width // 2:
        first -= 1
        used += len(_text(runs[first])) + 5
    spans = [Span(" ")]
    for index in range(first, len(runs)):
        mark, style = ("▸ ", "selected") if index == at else ("  ", "")
        spans.append(Span(mark, "bold" if index == at else ""))
        spans.append(Span(_name(runs[index]), style))
        spans.append(Span(f" {clean(runs[index].verdict.cause, 30)}", tone_of(runs[index].verdict.cause)))
        spans.append(Span("  "))
    return fit(spans, width)


def _name(run: RunView) -> str:
    rank = rank_of(run.run)
    return f"{name_of(run.run, 18)}{' ' + rank if rank else ''}"


def _text(run: RunView) -> str:
    return f"{_name(run)} {run.verdict.cause}"
