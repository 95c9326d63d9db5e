"""Why this verdict: what to do with its code, the evidence for and against, what came second."""

from __future__ import annotations

from rich.cells import cell_len

from gputop.records import Advice, Evidence, clean
from gputop.tui import figures
from gputop.tui.draw import inside, ledger, profile, verdict
from gputop.tui.draw.extras import threshold_text, value_text
from gputop.tui.draw.sight import Sight, calm_of, chosen
from gputop.tui.draw.transport import badge
from gputop.tui.lines import Line, Span, code, fit, wrap
from gputop.tui.sheet import Deed
from gputop.tui.tables import Column, choose, heading, row
from gputop.view import RunView


def draw(sight: Sight, width: int) -> list[Line]:
    """All lines of the page."""
    run = chosen(calm_of(sight), sight.run_id)
    if run is None:
        return verdict.waiting(calm_of(sight), width, 5)
    many = 2 + len(wrap(f"{run.verdict.cause} {run.verdict.headline}", max(10, width - 4), 8))
    lines = [*verdict.spoken(run, sight.view.now_ns, width, many), fit([], width)]
    lines += ledger.lines(run, width, 15 if width >= 40 else 1, 2)
    lines += _advice(run.verdict.advice, width)
    columns = _columns(run.verdict.evidence, width)
    lines += _evidence("speaks for it", [e for e in run.verdict.evidence if e.supports], columns, width)
    lines += _evidence("speaks against it", [e for e in run.verdict.evidence if not e.supports], columns, width)
    lines += _said(run, width)
    lines += _runner_up(run, width)
    if run.verdict.notices:
        lines += _title("worth knowing", width)
        for notice in run.verdict.notices:
            lines += _text(clean(notice, 500), width, "")
    if run.profile is not None:
        lines += profile.section(run.profile, sight.view.now_ns, width)
    elif run.state == "training" and not badge(sight.view) and not run.run.sampled:
        lines += profile.offer(width)
    if run.worker is not None:
        lines += inside.section(run.worker, sight.view.now_ns, width)
    return lines


def opens(sight: Sight) -> Deed | None:
    """The page about the cause."""
    run = chosen(calm_of(sight), sight.run_id)
    return None if run is None else Deed("page", "cause", run.verdict.cause)


def _title(text: str, width: int) -> list[Line]:
    return [fit([], width), fit([Span(f" {text}", "title")], width)]


def _text(text: str, width: int, style: str, indent: int = 3) -> list[Line]:
    rows = wrap(text, max(8, width - indent - 1), 12)
    return [fit([Span(" " * indent), Span(line, style)], width) for line in rows]


def _columns(items: list[Evidence], width: int) -> tuple[Column, ...]:
    """As wide as what stands in them, so that the eye has no way to go from a signal to its value; signals are cut
    rather than that a limit goes."""
    value = max((cell_len(value_text(item)) for item in items), default=0)
    value = max(5, min(20, value))
    signal = max((cell_len(clean(item.signal, 120)) for item in items), default=0)
    columns = (
        Column("signal", max(20, min(signal, width - 17 - value)), number=False), Column("value", value),
        Column("limit", 9, number=False, rank=1), Column("from", 10, number=False, rank=2),
    )  # fmt: skip
    windows = any(item.window_s is not None for item in items)
    return (*columns, Column("over", 6, rank=3)) if windows else columns


def _evidence(title: str, items: list[Evidence], columns: tuple[Column, ...], width: int) -> list[Line]:
    if not items:
        return []
    kept = choose(columns, width - 2)
    lines = [*_title(title, width), heading(columns, kept, width)]
    for item in items:
        over = "" if item.window_s is None else f"{item.window_s:.0f} s"
        style = "dim" if item.value is None else "bold"
        cells = [Span(clean(item.signal, 120)), Span(value_text(item), style), Span(threshold_text(item), "dim"),
                 Span(clean(item.source or "", 30), "dim"), Span(over, "dim")]  # fmt: skip
        lines.append(row(columns, kept, cells, width))
    return lines


def _advice(items: list[Advice], width: int) -> list[Line]:
    if not items:
        return []
    lines = _title("what to do", width)
    for number, item in enumerate(items, 1):
        lines += _text(f"{number}. {clean(item.do, 400)}", width, "bold", 1)
        if item.why:
            lines += _text(clean(item.why, 600), width, "dim", 4)
        for typed in (item.code or "").splitlines():
            lines += [
                fit([Span("    │ ", "faint"), Span(part, "key")], width) for part in code(clean(typed, 1000), width - 7)
            ]
    return lines


def _said(run: RunView, width: int) -> list[Line]:
    """The verdict that the recording holds, where it is another one."""
    said = run.said
    if said is None:
        return []
    sure = f", confidence {said.confidence * 100:.0f} %" if said.confidence > 0 else ""
    lines = _title("what was said at the time", width)
    lines += _text(f"{clean(said.cause, 40)}{sure}{', tentative' if said.tentative else ''}", width, "warn")
    lines += _text(clean(said.headline, 500), width, "")
    if said.advice:
        lines += _text(f"→ {clean(said.advice[0].do, 400)}", width, "")
    return lines + _text("The verdict above is what this version's rules make of the same steps.", width, "dim")


def _runner_up(run: RunView, width: int) -> list[Line]:
    second = run.verdict.runner_up
    if second is None:
        return []
    share = f", {figures.pct(second.share_pct)} of the time" if second.share_pct is not None else ""
    own = f"; the verdict explains {figures.pct(run.verdict.share_pct)}" if run.verdict.share_pct is not None else ""
    return [*_title("what came second", width), *_text(f"{clean(second.cause, 40)}{share}{own}", width, "")]
