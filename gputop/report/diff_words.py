"""A comparison in words: one sentence first, then the two sides side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from gputop import figures as fig
from gputop.records import clean
from gputop.report.diff import Comparison, Phase
from gputop.report.diff_figures import QUANTILES
from gputop.report.diff_sentence import job_rate, sentence
from gputop.report.diff_side import Side
from gputop.report.paper import BOLD, Paper, paragraph
from gputop.report.tables import NONE, Rows, table

SMALL = 0.005
"""Share of the step below which a phase's change is not told."""

ODD_RANK = 0.05
"""A rank whose change differs from the first rank's by this share is named."""

LONG = 300


def of_comparison(found: Comparison, paper: Paper | None = None) -> str:
    """The comparison in words."""
    paper = paper or Paper()
    return paper.finish("\n".join(_lines(found, paper)) + "\n")


def _lines(found: Comparison, paper: Paper) -> Iterator[str]:
    yield from (paper.ink(line, BOLD) for line in paragraph(sentence(found), paper.width))
    yield ""
    for name, side in (("A", found.a), ("B", found.b)):
        yield from paragraph(f"{name}  {_side(side)}", paper.width, "", "   ")
    yield ""
    yield from table([["", "A", "B", "change"], *_speed_rows(found)], "  ", "lrrl", paper.width)
    yield ""
    if found.ledger:
        head = ["a step's time", "A", "", "B", "", "change"]
        least = SMALL * max(side.figures.mean_ms or 0.0 for side in (found.a, found.b))
        yield from table([head, *(_phase_row(phase, least) for phase in found.ledger)], "  ", "lrrrrr", paper.width)
        yield ""
    yield from table(_state_rows(found), "  ", "lll", paper.width)
    for change in found.changes:
        before, after = _value(change.a), _value(change.b)
        if before != after:
            yield from paragraph(f"{change.what}: {before} to {after}", paper.width, "  changed: ", "    ")
    yield from _rank_lines(found, paper)
    for warning in found.warnings:
        yield from paragraph(clean(warning, 2000), paper.width, "note: ")


def _side(side: Side) -> str:
    run, figures = side.run, side.figures
    parts = [clean(side.source, LONG), clean(PurePath(run.script).name if run.script else run.run_id, 60)]
    if len(side.ranks) > 1 or (run.world_size or 1) > 1:
        parts.append(f"rank {run.rank} of {run.world_size}")
    apart = ((figures.warmup_steps, "of warm-up"), (figures.epoch_starts or 0, "opening an epoch"))
    left = " and ".join(f"{count} {what}" for count, what in apart if count)
    parts.append(f"{fig.count(figures.steps)} steps" + (f" ({left} left out)" if left else ""))
    parts += ["simulated GPU"] if side.simulated else []
    return " · ".join(parts)


def _speed_rows(found: Comparison) -> Rows:
    a, b = found.a.figures, found.b.figures
    rows = [["step, mean", _ms(a.mean_ms), _ms(b.mean_ms), _change(a.mean_ms, b.mean_ms)]]
    if found.mean is not None and found.unit == "step":
        rows[0][3] += f" (95 %: {_signed(found.mean.low)} to {_signed(found.mean.high)})"
    rows += [
        [
            f"      {name}",
            _ms(a.step_ms.get(name)),
            _ms(b.step_ms.get(name)),
            _change(a.step_ms.get(name), b.step_ms.get(name)),
        ]
        for name in QUANTILES
    ]
    rows.append(
        ["steps/s, whole run", _rate(a.steps_per_s), _rate(b.steps_per_s), _change(a.steps_per_s, b.steps_per_s)]
    )
    rates = [job_rate(side) for side in (found.a, found.b)]
    if rates != [None, None]:
        ranks = ", all ranks" if any((side.run.world_size or 1) > 1 for side in (found.a, found.b)) else ""
        rows.append([f"samples/s{ranks}, steady", *(_rate(rate) for rate in rates), _change(*rates)])
        if found.mean is not None and found.unit == "sample":
            low, high = 1 / found.mean.high, 1 / found.mean.low
            rows[-1][3] += f" (95 %: {_signed(low)} to {_signed(high)})"
    return rows


def _phase_row(phase: Phase, least_ms: float) -> list[str]:
    row = [clean(phase.phase, 24)]
    for ms, pct in ((phase.a_ms, phase.a_pct), (phase.b_ms, phase.b_pct)):
        row += [_ms(ms), NONE if pct is None else fig.pct(pct)]
    delta = (phase.b_ms or 0.0) - (phase.a_ms or 0.0)
    return [*row, f"{'+' if delta >= 0 else '-'}{fig.ms(abs(delta))}" if abs(delta) >= least_ms else ""]


def _state_rows(found: Comparison) -> Rows:
    rows = [["verdict", *(side.verdict.cause if side.verdict is not None else NONE for side in (found.a, found.b))]]
    gpus = [side.gpu for side in (found.a, found.b)]
    util = [gpu.util_mean_pct if gpu is not None else None for gpu in gpus]
    peak = [gpu.mem_peak_bytes if gpu is not None else None for gpu in gpus]
    power = [gpu.power_mean_w if gpu is not None else None for gpu in gpus]
    if util != [None, None]:
        rows.append(["GPU used, mean", *(NONE if one is None else fig.pct(one) for one in util)])
    if peak != [None, None]:
        rows.append(["GPU memory, peak", *(NONE if one is None else f"{fig.gib(one)} GiB" for one in peak)])
    if power != [None, None]:
        rows.append(["GPU power, mean", *(NONE if one is None else f"{one:.0f} W" for one in power)])
    return rows


def _rank_lines(found: Comparison, paper: Paper) -> Iterator[str]:
    pairs = found.ranks
    if len(pairs) < 2:
        return
    first = pairs[0].b_ms / pairs[0].a_ms
    odd = [pair for pair in pairs[1:] if abs(pair.b_ms / pair.a_ms / first - 1) > ODD_RANK]
    text = f"{len(pairs)} ranks are in both; rank {pairs[0].rank} is compared"
    told = [f"rank {pair.rank} {fig.ms(pair.a_ms)} to {fig.ms(pair.b_ms)}" for pair in odd[:8]]
    text += f"; changed unlike it: {', '.join(told)}" if told else ", the others changed alike"
    yield from paragraph(text, paper.width, "  ")


def _value(value: Any) -> str:
    if value is None:
        return "not known"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return fig.number(value)
    if isinstance(value, int):
        return fig.count(value)
    if isinstance(value, (list, tuple)):
        return clean(", ".join(map(str, value)), LONG) or "none"
    if isinstance(value, dict):
        whole = sum(value.values())
        if len(value) > 1 and whole:
            return clean(", ".join(f"{fig.pct(100 * part / whole)} {name}" for name, part in value.items()), LONG)
        return clean(", ".join(map(str, value)), LONG) or "none"
    return clean(str(value), LONG)


def _ms(value: float | None) -> str:
    return NONE if value is None else fig.ms(value)


def _rate(value: float | None) -> str:
    return NONE if value is None else fig.rate(value)


def _change(a: float | None, b: float | None) -> str:
    return "" if not a or b is None else _signed(b / a)


def _signed(ratio: float) -> str:
    """A ratio as a change in percent."""
    return f"{100 * (ratio - 1):+.{0 if abs(ratio - 1) >= 0.1 else 1}f} %"
