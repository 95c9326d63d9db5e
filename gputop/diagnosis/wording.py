"""How figures are written in headlines, evidence and advice."""

from __future__ import annotations

from gputop import figures

time = figures.ms
"""A duration given in milliseconds, with three significant figures and the unit that suits it."""


def of_step(part_ms: float, step_ms: float) -> str:
    """A part of a step, as in "104 of 184 ms"."""
    part, whole = time(part_ms), time(step_ms)
    number, unit = part.rsplit(" ", 1)
    return f"{number} of {whole}" if whole.endswith(f" {unit}") else f"{part} of {whole}"


def cost(part_ms: float, step_ms: float, lost_pct: float, *, on_gpu: bool) -> str:
    """A part of a step and what it costs, as in "104 of 184 ms per step (57 %)"; two figures where they differ."""
    text, share = f"{of_step(part_ms, step_ms)} per step", 100 * part_ms / step_ms if step_ms else 0.0
    if abs(share - lost_pct) <= SAME_PCT:
        return f"{text} ({pct(share)})"
    return f"{text} ({pct(share)}) and costs {pct(lost_pct)} of {'device time' if on_gpu else 'the step'}"


SAME_PCT = 3.0
"""Points by which a part of the step and its cost may differ to be said as one figure."""


def pct(value: float) -> str:
    """A percentage, whole from 10 on."""
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def count(number: float, noun: str) -> str:
    """A count with its noun: "1 worker", "4 workers", "2.5 cores"."""
    if float(number).is_integer() or number >= 10:
        return figures.counted(number, noun)
    return f"{number:.1f} {noun}s"


def ordinal(number: int) -> str:
    """A place in a row: 1st, 2nd, 3rd, 4th, 11th, 21st."""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


memory = figures.memory
"""A number of bytes that memory holds, in powers of 1024."""

size = figures.size
"""A number of bytes that were moved, in powers of 1000."""
