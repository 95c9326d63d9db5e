"""What a larger screen adds under the overview: the evidence for the verdict, and each phase with its history."""

from __future__ import annotations

from rich.cells import cell_len

from gputop.records import Evidence, clean
from gputop.tui import figures
from gputop.tui.draw.ledger import mark, ordered, style_of
from gputop.tui.draw.series import graph, nice_top, on_axis
from gputop.tui.lines import Line, Span, crop, fit, wrap
from gputop.view import RunView, View

USUAL_VALUE, MOST_VALUE = 12, 18
"""Cells that values of signals have; not as many as they take, or the column would move with a digit."""


def value_text(evidence: Evidence) -> str:
    """The value with its unit."""
    if evidence.value is None:
        return "not known"
    if isinstance(evidence.value, str):
        return clean(evidence.value, 60)
    return f"{figures.number(evidence.value, 2)} {clean(_one(evidence.unit or '', evidence.value), 12)}".rstrip()


def threshold_text(evidence: Evidence) -> str:
    """On which side of its threshold the value lies: "> 15"."""
    if evidence.threshold is None or evidence.value is None or isinstance(evidence.value, str):
        return ""
    side = ">" if evidence.value > evidence.threshold else "<" if evidence.value < evidence.threshold else "="
    return f"{side} {figures.number(evidence.threshold, 2)}"


def evidence_line(evidence: Evidence, width: int, signals: int, values: int) -> Line:
    """One signal, its value, and its limit, in columns of `signals` and `values` cells: a tick when it speaks for the
    verdict, a cross when against."""
    mark = Span(" ✓ ", "good") if evidence.supports else Span(" ✗ ", "warn")
    if evidence.value is None:
        mark = Span(" – ", "dim")
    signal, value = crop(clean(evidence.signal, 120), signals), crop(value_text(evidence), values)
    told = signal + " " * (signals - cell_len(signal)) + "  " + " " * (values - cell_len(value)) + value
    return fit([mark, Span(told), Span(f"  {threshold_text(evidence)}", "dim")], width)


def evidence(run: RunView, width: int) -> list[Line]:
    """A heading, the evidence, then the verdict's notices. Values stand near what they are values of."""
    items, notices = run.verdict.evidence, run.verdict.notices
    if not (items or notices):
        return []
    lines = [fit([Span(" why this verdict", "dim")], width)]
    limits = max((cell_len(threshold_text(item)) for item in items), default=0)
    most = max((cell_len(value_text(item)) for item in items), default=0)
    values = USUAL_VALUE if most <= USUAL_VALUE else MOST_VALUE
    longest = max((cell_len(clean(item.signal, 120)) for item in items), default=0)
    signals = max(8, min(longest, width - 3 - 2 - values - 2 - limits - 1))
    lines += [evidence_line(item, width, signals, values) for item in items]
    for text in notices:
        for index, part in enumerate(wrap(clean(text, 300), width - 5, 3)):
            lines.append(fit([Span("   " if index else " ! ", "warn"), Span(part, "dim")], width))
    return lines


def phases(run: RunView, view: View, width: int) -> list[Line]:
    """The heading and one row a bucket: letter, name, mean time and share, and its history where there is one."""
    shares = ordered(run.ledger)
    if not shares:
        return []
    cells = max(0, width - 36)
    lines = [fit([Span(" where a step goes", "dim")], width)]
    for share in shares:
        values = on_axis(run.phase_history.get(share.phase, ()), view, cells)
        spans = [
            Span(" "),
            *mark(share.phase),
            Span(" " + crop("gputop" if share.phase == "self" else clean(share.phase, 40), 12).ljust(12)),
            Span(figures.ms(share.ms).rjust(9), "bold"),
            Span(figures.pct(share.pct).rjust(7) + "  "),
            Span(graph(values, nice_top(values))[0] if cells > 4 else "", style_of(share.phase)),
        ]
        lines.append(fit(spans, width))
    return lines


def _one(unit: str, value: object) -> str:
    """The unit of one thing, where there is one: "1 worker"."""
    return unit[:-1] if value == 1 and unit.endswith("s") else unit
