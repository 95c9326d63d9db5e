"""Copies to the device come from unpinned memory: they run at half speed and block the training thread."""

from __future__ import annotations

from gputop.diagnosis.candidate import Candidate, Case, speedup
from gputop.diagnosis.copies import ENTER_PCT, PAGEABLE_SHARE, Copies, copies
from gputop.diagnosis.evidence import Facts
from gputop.diagnosis.input_wait import loader_code
from gputop.diagnosis.wording import of_step, pct, size
from gputop.records import Advice

ID = "h2d-pageable"
FAMILY = "transfer"

SLOW_LINK = 0.5
"""Share of the link's peak below which a copy goes through a staging buffer, as copies from unpinned memory do."""


def examine(facts: Facts) -> Candidate | None:
    """Whether copies take a real share of the step and most bytes come from unpinned memory."""
    copy = copies(facts)
    if copy is None or (copy.pageable_share or 0.0) < PAGEABLE_SHARE:
        return None
    case = Case(facts)
    case.at_least("step time in copies to the device", copy.share_pct, ENTER_PCT, "%", copy.source, 1.5)
    case.at_least(
        "bytes copied from unpinned memory", 100 * (copy.pageable_share or 0), 100 * PAGEABLE_SHARE, "%", "steps", 2.0
    )
    case.at_most("copy rate over the link's peak", copy.link_share, SLOW_LINK, "", copy.source)
    if copy.source != "device":
        case.missing(1.5)
    return Candidate(
        cause=ID,
        family=FAMILY,
        share_pct=copy.share_pct,
        fit=case.fit,
        headline=f"{of_step(copy.ms, copy.step_ms)} per step ({pct(copy.share_pct)}) copies "
        f"{size(copy.bytes or 0)} from unpinned memory to the device{_rate(copy)}",
        evidence=case.evidence,
        advice=_advice(facts),
        speedup_limit=speedup(copy.share_pct - copy.fastest_pct),
        beside=True,
    )


def _rate(copy: Copies) -> str:
    return f" at {size(copy.bytes_s)}/s" if copy.bytes_s else ""


def _advice(facts: Facts) -> list[Advice]:
    loader = facts.loader
    advice = []
    if loader is None or not loader.pin_memory:
        now = "" if loader is None or loader.pin_memory is None else "False → "
        advice.append(
            Advice(
                do=f"pin_memory {now}True, and copy with non_blocking=True",
                why="pinned memory is copied at the link's rate while the training thread goes on",
                code=loader_code(facts, pin_memory=True) + "\nimages = images.to(device, non_blocking=True)",
            )
        )
    else:
        advice.append(
            Advice(
                do="pin what is copied: the loader pins, but these bytes come from unpinned memory",
                why="a custom batch type needs its own pin_memory(); copies made later are unpinned again",
                code="class Batch:\n    def pin_memory(self):\n        self.images = self.images.pin_memory()\n"
                "        return self",
            )
        )
    advice.append(Advice(do="copy less: send uint8 and convert on the device", why="a quarter of the bytes of float32"))
    return advice
