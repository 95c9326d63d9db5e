"""A comparison in one sentence: what changed, by how much, why, or that nothing did."""

from __future__ import annotations

from gputop import figures as fig
from gputop.records import clean
from gputop.report.diff import SAME_BATCH, Comparison, Phase, Unit, mean_with_starts_ms, starts_changed, starts_pct
from gputop.report.diff_side import Side

TIMES = 1.5
"""From this factor on a change is told as a factor, below in percent."""

MOVED_POINTS = 3.0
"""Points by which a phase's share must have moved to be told as a share; else it is told in ms."""

NAMES = {"data": "data wait", "h2d": "copy to the device", "sync": "reading device values", "comm": "collectives",
         "eval": "evaluation", "checkpoint": "checkpoints", "self": "gputop itself"}  # fmt: skip


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
            ) + _starts(found)
        return f"no difference beyond the noise: {speeds} (±{found.mean.margin_pct:.0f} %){_starts(found)}"
    parts = [part for part in (_more_at_once(found), _moved(found), _verdict_words(found)) if part]
    return f"{_faster(found.mean.ratio, found.unit)}{_with_starts(found)}: {'; '.join(parts) or speeds}"


def _with_starts(found: Comparison) -> str:
    """What becomes of the change where the first steps of epochs, which are left out of it, take another share."""
    means = [mean_with_starts_ms(side) for side in (found.a, found.b)]
    if not starts_changed(found.a, found.b) or not means[0] or not means[1]:
        return ""
    scale = _units(found.a) / _units(found.b) if found.unit == "sample" else 1.0
    return f" ({_faster(means[1] / means[0] * scale, found.unit)} with the first steps of epochs)"


def _starts(found: Comparison) -> str:
    shares = [starts_pct(side) for side in (found.a, found.b)]
    if not starts_changed(found.a, found.b) or shares[0] is None or shares[1] is None:
        return ""
    return f"; but the first steps of epochs take {fig.pct(shares[1])} of the time, not {fig.pct(shares[0])}"


def _speeds(found: Comparison) -> str:
    """Both sides' speeds by the unit that is compared."""
    if found.unit == "sample":
        return " and ".join(fig.rate(job_rate(side) or 0.0) for side in (found.a, found.b)) + " samples/s"
    return " and ".join(fig.ms(side.figures.mean_ms or 0.0) for side in (found.a, found.b)) + " a step"


def job_rate(side: Side) -> float | None:
    """Samples a second of the whole job while steps are steady."""
    mean, batch = side.figures.mean_ms, side.job_batch
    return 1000 * batch / mean if mean and batch else None


def _faster(ratio: float, unit: Unit) -> str:
    """A ratio of paces (time of B over A) in words."""
    if unit == "sample":
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
        parts.append(f"batch {fig.number(a)} to {fig.number(b)}")
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
