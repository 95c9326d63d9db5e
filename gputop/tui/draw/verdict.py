"""The verdict block: the cause, the sentence that proves it, what to do, and what it would gain."""

from __future__ import annotations

import re

from rich.cells import cell_len

from gputop.diagnosis.steady import AWAITED
from gputop.records import Verdict, clean
from gputop.tui import figures, offering
from gputop.tui.draw.sight import Sight, calm_of, chosen
from gputop.tui.draw.transport import badge
from gputop.tui.glyphs import tone_of
from gputop.tui.lines import SEPARATOR, Line, Span, crop, fit, pieces, sides, wrap
from gputop.view import RunView, View

HOW_TO_START = ("gputop run -- python train.py", "import gputop; gputop.watch()")


def block(sight: Sight, width: int, height: int, tag: str = "") -> list[Line]:
    """The verdict on the chosen run, or what is awaited, in exactly `height` lines.

    `tag` stands before it where a screen has no line above that says what kind of picture this is.
    """
    run = chosen(calm_of(sight), sight.run_id)
    inner = width - cell_len(tag) - 3 if tag else width
    if run is None:
        lines = waiting(calm_of(sight), inner, height)
    else:
        attach = offering.silent(run) and offering.attachable(sight.view, sight.run_id) is not None
        lines = spoken(run, sight.view.now_ns, inner, height, attach=attach)
    if tag and lines:
        lines = [fit([Span(f" {tag} ", "selected"), *lines[0]], width), *[fit(line, width) for line in lines[1:]]]
    return [*lines, *[fit([], width)] * (height - len(lines))][: max(0, height)]


def spoken(run: RunView, now_ns: int, width: int, height: int, *, attach: bool = False) -> list[Line]:
    """The verdict on one run in at most `height` lines. `attach`: it has no publisher, and may be attached to."""
    verdict = run.verdict
    tone = f"tone.{tone_of(verdict.cause)}"
    title = clean(verdict.cause, 40).upper()
    rows_left = max(1, height - 2 if verdict.advice else height - 1)
    inner = width - 3
    rows = proof(f"{title} {clean(verdict.headline, 400)}", inner - 1, rows_left)
    lines = [_headline(row, title if index == 0 else "", tone, width) for index, row in enumerate(rows)]
    if verdict.advice and len(lines) < height:
        lines.append(
            _bar(tone, [Span("→ ", tone), Span(crop(clean(verdict.advice[0].do, 300), inner - 2), "bold")], width)
        )
    if len(lines) < height:
        lines.append(_outlook(run, verdict, now_ns, tone, width, attach=attach))
    return lines


def proof(text: str, cells: int, rows: int) -> list[str]:
    """The sentence in rows; where only its last words would be left for the second, the clause that they end goes there
    whole."""
    out = wrap(text, cells, rows)
    if len(out) != 2 or cell_len(out[1]) >= cells // 3:
        return out
    breaks = ((text[: match.start()].strip(), text[match.end() :].strip()) for match in _CLAUSES.finditer(text))
    apart = [pair for pair in breaks if cells // 2 <= cell_len(pair[0]) <= cells and cell_len(pair[1]) <= cells]
    if not apart:
        return out
    first, second = min(apart, key=lambda pair: abs(cell_len(pair[0]) - cell_len(pair[1])))
    return [first, second]


_CLAUSES = re.compile(r"\s+(?=\()|(?<=[,;:])\s+")
"""Between two clauses: before a bracket, after a comma or its like."""


def _headline(text: str, title: str, tone: str, width: int) -> Line:
    if title and text.startswith(title):
        return _bar(tone, [Span(title, tone), Span(" " + text[len(title) :])], width)
    return _bar(tone, [Span(text)], width)


def _bar(tone: str, spans: list[Span], width: int) -> Line:
    return fit([Span(" ▌ ", tone.replace("tone.", "bar.")), *spans], width)


def _outlook(run: RunView, verdict: Verdict, now_ns: int, tone: str, width: int, *, attach: bool) -> Line:
    keys = [Span("A", "key"), Span(" samples its stacks  ", "dim")] if attach else []
    keys += [Span("w", "key"), Span(" why  ", "dim"), Span("y", "key"), Span(" copy ", "dim")]
    parts = outlook(run, verdict, now_ns)
    text = pieces(parts, width - 6 - sum(cell_len(key.text) for key in keys) if width >= 60 else width - 4)
    spans = [Span(" ▌ ", tone.replace("tone.", "bar."))]
    for index, part in enumerate(text.split(SEPARATOR) if text else ()):
        style = "warn" if part.startswith(SAID) else "bold" if gains(verdict) and part == parts[0] else "dim"
        spans += [Span(SEPARATOR if index else "", "dim"), Span(part, style)]
    return sides(spans, keys if width >= 60 else [], width)


def gains(verdict: Verdict) -> bool:
    """Whether the cure would gain anything worth saying."""
    return verdict.speedup_limit is not None and verdict.speedup_limit >= 1.02


def outlook(run: RunView, verdict: Verdict, now_ns: int) -> list[str]:
    """What the cure would gain, how sure the verdict is, how long it has held, and on what clock."""
    parts = []
    if verdict.speedup_limit is not None and gains(verdict):
        parts.append(f"up to {verdict.speedup_limit:.{1 if verdict.speedup_limit >= 1.2 else 2}f}x faster")
    if run.said is not None:
        parts.append(f"{SAID}{clean(run.said.cause, 40)}")
    awaited = verdict.tentative and AWAITED in verdict.notices
    if awaited:
        parts.append("tentative: processes yet to be seen")
    if verdict.confidence > 0:
        parts.append(f"confidence {verdict.confidence * 100:.0f} %")
    if verdict.tentative and not awaited:
        parts.append("tentative")
    if verdict.since_ns is not None:
        lasted = (run.last_ns or now_ns if run.state in _OVER else now_ns) - verdict.since_ns
        if lasted >= JUST_NOW_NS:
            parts.append(f"held {figures.held(lasted)}")
    if verdict.clock and verdict.clock != "device":
        parts.append(f"{clean(verdict.clock, 20)} clock" if verdict.clock == "host" else clean(verdict.clock, 20))
    return parts


SAID = "said then: "
"""What leads the verdict that a recording holds, where today's rules come to another."""

JUST_NOW_NS = 5_000_000_000
"""A verdict younger than this has not held yet."""

ROOMY = 5
"""Lines from which what is awaited is told whole, before how to start one: it may say why something is not allowed."""

_OVER = ("ended", "lost")


FIRST = [
    Span("or first        ", "dim"), Span("gputop demo", "key"), Span(" shows one, ", "dim"),
    Span("gputop doctor", "key"), Span(" checks this machine", "dim"),
]  # fmt: skip
"""What can be done before there is a training."""


def waiting(view: View, width: int, height: int) -> list[Line]:
    """With no run: what is awaited and the two ways to start one; of the past, only that nothing trained."""
    if badge(view):
        text = clean(view.waiting or "nothing trained at this moment: ] goes to the next change", 300)
        return [_bar("tone.quiet", [Span(row, "bold")], width) for row in wrap(text, width - 3, height)][:height]
    text = clean(view.waiting or "waiting for a training process", 300)
    awaited, _, rest = text.partition(": ")
    text = awaited if "gputop run" in rest else text  # the two ways follow, each in a line that can be copied
    offer = _attachable(view, width)[: max(0, height - 3)]
    room = height - 1 if height >= ROOMY else max(1, height - 2 - len(offer))
    lines = [_bar("tone.quiet", [Span(row, "bold" if index == 0 else "")], width)
             for index, row in enumerate(wrap(text, width - 3, room))]  # fmt: skip
    lines += offer
    for lead, code in zip(("start it with   ", "or add a line   "), HOW_TO_START, strict=True):
        lead_text = lead if width >= 50 else ""
        lines.append(_bar("tone.quiet", [Span(lead_text, "dim"), Span(code, "key")], width))
    if width >= 76:
        lines.append(_bar("tone.quiet", FIRST, width))
    return lines[:height]


def _attachable(view: View, width: int) -> list[Line]:
    """How a training without a publisher can be watched all the same: by a key, or from another terminal."""
    found = offering.attachable(view)
    if found is None:
        return []
    where = f"runs on GPU {found.gpu}" if found.framework is None else f"computes with {found.framework}"
    lead, does = f"{found.name} {where}: ", " watches it as it is, or "
    spans = [Span(lead if width >= 72 else "", "dim"), Span("A", "key"), Span(does if width >= 60 else " or ", "dim")]
    return [_bar("tone.quiet", [*spans, Span(f"gputop attach {found.pid}", "key")], width)]
