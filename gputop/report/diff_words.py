"""A comparison in words: one sentence first, then the two sides side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from gputop.records import clean
from gputop.report import figures as fig
from gputop.report.diff import SAME_BATCH, Comparison, Phase
from gputop.report.diff_side import QUANTILES, Side
from gputop.report.paper import BOLD, Paper, paragraph
from gputop.report.tables import NONE, Rows, table

TIMES = 1.5
"""From this factor on a change is told as a factor, below in percent."""

MOVED_POINTS = 3.0
"""Points by which a phase's share must have moved to be told as a share; else it is told in ms."""

SMALL = 0.005
"""Share of the step below which a phase's change is not told."""

ODD_RANK = 0.05
"""A rank whose change differs from the first rank's by this share is named."""

NAMES = {"data": "data wait", "h2d": "copy to the device", "sync": "reading device values", "comm": "collectives",
         "eval": "evaluation", "checkpoint": "checkpoints", "self": "gputop itself"}  # fmt: skip

LONG = 300


def sentence(found: Comparison) -> str:
    """What the comparison says, in one sentence."""
    if found.mean is None:
        return found.why_not or "there is nothing to compare"
    speeds = _speeds(found)
    if not found.mean.differs:
        if found.typical is not None and found.typical.differs:
            return (
                f"no difference beyond the noise in the mean: {speeds} (±{found.mean.margin_pct:.0f} %); but the usual "
                f"step is {_shorter(found.typical.ratio)}{' a sample' if found.unit == 'sample' else ''}"
            )
        return f"no difference beyond the noise: {speeds} (±{found.mean.margin_pct:.0f} %)"
    parts = [part for part in (_more_at_once(found), _moved(found), _verdict_words(found)) if part]
    return f"{_faster(found)}: {'; '.join(parts) or speeds}"


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
        text = f"{change.what}: {_value(change.a)} to {_value(change.b)}"
        yield from paragraph(text, paper.width, "  changed: ", "    ")
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


def _speeds(found: Comparison) -> str:
    """Both sides' speeds by the unit that is compared."""
    if found.unit == "sample":
        return " and ".join(fig.rate(_job_rate(side) or 0.0) for side in (found.a, found.b)) + " samples/s"
    return " and ".join(fig.ms(side.figures.mean_ms or 0.0) for side in (found.a, found.b)) + " a step"


def _job_rate(side: Side) -> float | None:
    """Samples a second of the whole job while steps are steady."""
    mean, batch = side.figures.mean_ms, side.job_batch
    return 1000 * batch / mean if mean and batch else None


def _faster(found: Comparison) -> str:
    assert found.mean is not None
    ratio = found.mean.ratio
    if found.unit == "sample":
        more = (
            f"{1 / ratio:.1f}x the samples/s" if 1 / ratio >= TIMES else f"{100 * (1 / ratio - 1):.0f} % more samples/s"
        )
        fewer = f"{ratio:.1f}x fewer samples/s" if ratio >= TIMES else f"{100 * (1 - 1 / ratio):.0f} % fewer samples/s"
        return more if ratio < 1 else fewer
    if ratio < 1:
        return f"{1 / ratio:.1f}x faster" if 1 / ratio >= TIMES else f"{100 * (1 / ratio - 1):.0f} % faster"
    return f"{ratio:.1f}x slower" if ratio >= TIMES else f"{100 * (1 - 1 / ratio):.0f} % slower"


def _shorter(ratio: float) -> str:
    return f"{100 * (1 - ratio):.0f} % shorter" if ratio < 1 else f"{100 * (ratio - 1):.0f} % longer"


def _moved(found: Comparison) -> str | None:
    """The phase that changed most in the direction of the whole, a unit of work."""
    assert found.mean is not None
    scale = _units(found.a) / _units(found.b) if found.unit == "sample" else 1.0
    sign = 1 if found.mean.ratio > 1 else -1

    def gain(phase: Phase) -> float:
        return sign * ((phase.b_ms or 0.0) * scale - (phase.a_ms or 0.0))

    most = max(found.ledger, key=gain, default=None)
    if most is None or gain(most) <= 0:
        return None
    name = NAMES.get(most.phase, clean(most.phase, 40))
    a_pct, b_pct = most.a_pct or 0.0, most.b_pct or 0.0
    if sign * (b_pct - a_pct) >= MOVED_POINTS:
        return f"{name} {fig.pct(a_pct)} to {fig.pct(b_pct)}"
    return f"{name} {fig.ms(most.a_ms or 0.0)} to {fig.ms(most.b_ms or 0.0)}" if found.unit == "step" else None


def _more_at_once(found: Comparison) -> str | None:
    """What makes a step more or less work than before, in words."""
    if found.unit == "step":
        return None
    parts = []
    a, b = found.a.figures.batch, found.b.figures.batch
    if a and b and abs(a / b - 1) > SAME_BATCH:
        parts.append(f"batch {a:.4g} to {b:.4g}")
    ranks = [side.run.world_size or 1 for side in (found.a, found.b)]
    if ranks[0] != ranks[1]:
        parts.append(f"{ranks[0]} to {ranks[1]} ranks")
    return ", ".join(parts) or None


def _units(side: Side) -> float:
    return side.job_batch or 1.0


def _verdict_words(found: Comparison) -> str | None:
    a, b = found.a.verdict, found.b.verdict
    if b is None or b.cause in ("unknown", "idle"):
        return None
    return f"still {b.cause}" if a is not None and a.cause == b.cause else f"now {b.cause}"


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
    rates = [_job_rate(side) for side in (found.a, found.b)]
    if rates != [None, None]:
        rows.append(["samples/s, all ranks", *(_rate(rate) for rate in rates), _change(*rates)])
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
        return f"{value:g}"
    if isinstance(value, int):
        return fig.count(value)
    if isinstance(value, (list, tuple)):
        return clean(", ".join(map(str, value)), LONG) or "none"
    if isinstance(value, dict):
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
