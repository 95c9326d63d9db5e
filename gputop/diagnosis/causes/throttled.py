"""The device's clocks are held down: heat, power brake, a lowered limit."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.device import HARMFUL
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.wording import pct
from gputop.records import Advice

ID = "throttled"
FAMILY = "device"

FLAG_SHARE = 0.5
"""Share of busy samples with a harmful reason for lowered clocks from which it is no passing dip."""

CLOCK_RATIO = 0.9
"""SM clock over its maximum, while busy, below which the device is really slower."""

LIMIT_RATIO = 0.9
"""Power limit over the board's default below which somebody lowered it."""

CRAWL_RATIO = 0.5
"""SM clock over its maximum, while busy, below which it is held down whatever the driver's reasons say."""

BUSY_UTIL_PCT = 80.0
"""Utilization from which the clock of a device counts: a resting one clocks down by itself."""


HOT_C = 80.0
"""Temperature at which boards begin to hold it (reports: 84), so that power that falls at full use is heat's doing."""

SAG = 0.1
"""Fall of power from its own 90th percentile, at full use, from which a hot board is slowing down."""


def examine(facts: Facts) -> Candidate | None:
    """Whether clocks sag under load for a reason that is a fault. A software power cap alone is none."""
    if facts.loop is None:
        return None
    return held_down(facts, facts.lost.total_pct if facts.lost is not None else None)


def held_down(facts: Facts, lost_pct: float | None) -> Candidate | None:
    """The same by the driver's figures alone. `lost_pct`: device time that goes to other causes, where it is known."""
    device = facts.device
    ratio, flags = device.clock_ratio, device.throttled_share
    if device.on_gpu is False:
        return None
    if ratio is None:
        return _sagging(facts, lost_pct)
    if ratio >= CLOCK_RATIO:
        return None
    flagged = flags is not None and flags >= FLAG_SHARE
    lowered = device.limit_ratio is not None and device.limit_ratio <= LIMIT_RATIO
    if not (flagged or lowered or ratio <= CRAWL_RATIO):
        return None
    case = Case(facts)
    case.at_most("SM clock over its maximum while busy", ratio, CLOCK_RATIO, "", "driver", 2.0)
    case.at_least("GPU utilization", device.util_pct, BUSY_UTIL_PCT, "%", "driver")
    if flags is not None:
        case.at_least(
            "busy samples with clocks held down by a fault", 100 * flags, 100 * FLAG_SHARE, "%", "driver", 2.0
        )
    if lowered:
        case.at_most("power limit over the board's default", device.limit_ratio, LIMIT_RATIO, "", "driver", 2.0)
    case.at_most("device time lost to other causes", lost_pct, 50, "%", facts.lost.source if facts.lost else "driver")
    reasons = ", ".join(sorted(HARMFUL.intersection(device.throttle))) or (
        "a lowered power limit" if lowered else "a reason that the driver does not give"
    )
    share = 100 * (1 - ratio) * _busy(lost_pct)
    heat = f" at {device.temp_c:.0f} °C" if device.temp_c is not None else ""
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{device.name} runs at {pct(100 * ratio)} of its clock{heat} ({reasons}): "
        f"up to {pct(share)} of the step",
        evidence=case.evidence,
        advice=_advice(facts, lowered=lowered),
        speedup_limit=speedup(share),
        beside=True,
    )


def _busy(lost_pct: float | None) -> float:
    return 1.0 if lost_pct is None else 1 - lost_pct / 100


def _sagging(facts: Facts, lost_pct: float | None) -> Candidate | None:
    """Without the clock: a board that is hot and full in use draws less and less power."""
    device = facts.device
    if device.power_sag is None or device.power_sag < SAG or (device.temp_c or 0.0) < HOT_C:
        return None
    share = 100 * device.power_sag * _busy(lost_pct)
    case = Case(facts)
    case.at_least("GPU utilization", device.util_pct, BUSY_UTIL_PCT, "%", "driver")
    case.at_least("temperature", device.temp_c, HOT_C, "C", "driver")
    case.at_least("fall of power at full use", 100 * device.power_sag, 100 * SAG, "%", "driver", 2.0)
    case.missing(1.0)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=share,
        fit=case.fit,
        headline=f"{device.name} draws {pct(100 * device.power_sag)} less power than before at {device.temp_c:.0f} °C "
        "and full use: it slows down to hold its temperature",
        evidence=case.evidence,
        advice=_advice(facts, lowered=False),
        speedup_limit=speedup(share),
        estimated=True,
        beside=True,
    )


def _advice(facts: Facts, *, lowered: bool) -> list[Advice]:
    if lowered:
        return [
            Advice(
                do="raise the power limit back to the board's default",
                why=f"it stands at {pct(100 * (facts.device.limit_ratio or 0))} of it",
                code="sudo nvidia-smi -pl WATTS",
            )
        ]
    if "power_brake" in facts.device.throttle or "hw_slowdown" in facts.device.throttle:
        return [Advice(do="check the power supply and its cables", why="the board itself slows down for lack of power")]
    return [
        Advice(
            do="better cooling: airflow, fans, dust, room temperature", why="the clocks fall to hold the temperature"
        )
    ]
