"""The PCIe link itself is the limit of the copies, or runs below its rating."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.copies import ENTER_PCT, PAGEABLE_SHARE, copies
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.wording import of_step, pct, size
from gputop.records import Advice

ID = "h2d-link"
FAMILY = "transfer"

NEAR_PEAK = 0.7
"""Share of the link's peak from which a copy is as fast as the link allows."""

DEGRADED = 0.6
"""Bandwidth of the link in use over its rated one, under load, below which the link is degraded."""


def examine(facts: Facts) -> Candidate | None:
    """Whether pinned copies take a real share of the step."""
    copy = copies(facts)
    if copy is None or (copy.pageable_share is not None and copy.pageable_share >= PAGEABLE_SHARE):
        return None
    rating = facts.device.link_ratio
    case = Case(facts)
    case.at_least("step time in copies to the device", copy.share_pct, ENTER_PCT, "%", copy.source, 1.5)
    if copy.pageable_share is None:
        case.missing(1.5)
    else:
        case.at_most("bytes copied from unpinned memory", 100 * copy.pageable_share, 100 * PAGEABLE_SHARE, "%", "steps")
    degraded = rating is not None and rating <= DEGRADED
    if degraded:
        case.at_most("link in use over its rating", rating, DEGRADED, "", "driver", 2.0)
    elif copy.link_share is None:
        case.missing(1.5)
    else:
        case.at_least("copy rate over the link's peak", copy.link_share, NEAR_PEAK, "", copy.source, 1.5)
    if copy.source != "device":
        case.missing(1.5)
    what = f"{of_step(copy.ms, copy.step_ms)} per step ({pct(copy.share_pct)}) copies to the device"
    how = f" {size(copy.bytes)}" if copy.bytes else ""
    link = f"; the link runs at {pct(100 * (rating or 0))} of its rating" if degraded else ""
    advice = [
        Advice(
            do="copy less: uint8 instead of float32, crops made before the copy, decoding on the device",
            why="the bytes over the link are what takes the time",
        ),
        Advice(
            do="or copy the next batch on a stream of its own while this one is computed",
            why="copies and kernels run side by side",
            code="with torch.cuda.stream(copy_stream):\n    following = following.to(device, non_blocking=True)\n"
            "torch.cuda.current_stream().wait_stream(copy_stream)  # before following is used",
        ),
    ]
    if degraded:
        advice.insert(
            0, Advice(do="look at the slot and the risers", why="the card runs below the link it is rated for")
        )
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=copy.share_pct,
        fit=case.fit,
        headline=f"{what}{how}{link}",
        evidence=case.evidence,
        advice=advice,
        speedup_limit=speedup(copy.share_pct),
        beside=True,
    )
