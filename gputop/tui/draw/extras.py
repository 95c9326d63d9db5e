"""What a larger screen adds under the overview: the evidence for the verdict, and each phase with its history."""

from __future__ import annotations

from gputop.records import Evidence, clean
from gputop.tui import figures
from gputop.tui.draw.ledger import letter_and_texture, ordered, style_of
from gputop.tui.draw.series import graph, nice_top, on_axis
from gputop.tui.lines import Line, Span, crop, fit
from gputop.view import RunView, View


def value_text(evidence: Evidence) -> str:
    """The value with its unit, and the threshold that it was held against."""
    if evidence.value is None:
        value = "not known"
    elif isinstance(evidence.value, str):
        value = clean(evidence.value, 60)
    else:
        value = f"{figures.number(evidence.value, 2)} {clean(evidence.unit or '', 12)}".rstrip()
    if evidence.threshold is None or isinstance(evidence.value, str):
        return value
    return f"{value}  (limit {figures.number(evidence.threshold, 2)})"


def evidence_line(evidence: Evidence, width: int) -> Line:
    """One signal: a tick when it speaks for the verdict, a cross when against."""
    mark = Span(" ✓ ", "good") if evidence.supports else Span(" ✗ ", "warn")
    if evidence.value is None:
        mark = Span(" – ", "dim")
    signal = crop(clean(evidence.signal, 80), max(8, width * 3 // 5))
    return fit([mark, Span(signal), Span("  "), Span(value_text(evidence), "dim")], width)


def evidence(run: RunView, width: int, rows: int) -> list[Line]:
    """The heading and the evidence that fits, then the verdict's notices."""
    if rows < 2 or not (run.verdict.evidence or run.verdict.notices):
        return []
    lines = [fit([Span(" why this verdict", "dim")], width)]
    lines += [evidence_line(item, width) for item in run.verdict.evidence]
    lines += [fit([Span(" ! ", "warn"), Span(clean(text, 300), "dim")], width) for text in run.verdict.notices]
    return lines[:rows]


def phases(run: RunView, view: View, width: int, rows: int) -> list[Line]:
    """The heading and one row a bucket: letter, name, mean time and share, and its history where there is one."""
    shares = ordered(run.ledger)
    if rows < 3 or not shares:
        return []
    cells = max(0, width - 36)
    lines = [fit([Span(" where a step goes", "dim")], width)]
    for share in shares:
        letter, texture = letter_and_texture(share.phase)
        values = on_axis(run.phase_history.get(share.phase, ()), view, cells)
        spans = [
            Span(f" {texture}{letter} " if letter != texture else f" {letter}  ", style_of(share.phase)),
            Span(crop(clean(share.phase, 40), 12).ljust(12)),
            Span(figures.ms(share.ms).rjust(9), "bold"),
            Span(figures.pct(share.pct).rjust(7) + "  "),
            Span(graph(values, nice_top(values))[0] if cells > 4 else "", style_of(share.phase)),
        ]
        lines.append(fit(spans, width))
    return lines[:rows]
