"""Copies to the device: how much of a step they take, from what memory they come, how near the link's peak they run."""

from __future__ import annotations

import msgspec

from gputop.diagnosis.evidence import Facts, once
from gputop.diagnosis.loop import Loop

NOTICE_PCT = 5.0
"""Percent of the step in copies from which they are looked at at all."""

ENTER_PCT = 10.0
"""Percent of the step in copies to the device from which they are worth naming (published rules take 10 to 20)."""

PAGEABLE_SHARE = 0.5
"""Share of the copied bytes from unpinned memory from which that, and not the link, is what slows the copies."""

LANE_BYTES_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Payload rate of one PCIe lane by generation, bytes per second (after line coding)."""


WAITING_BYTES_S, WAITING_MS = 50e6, 5.0
"""Rate below which, and time of a step in copies from which, the host waits there for the device's earlier work: one
lane of the oldest link moves five times as much, and what many small copies cost is less than that."""


class Copies(msgspec.Struct, frozen=True, kw_only=True):
    """`share_pct` and `ms`: of a step in copies, on the device's clock ("device") or the host's ("steps").

    `fastest_pct`: percent of the step that the same bytes would take at the link's peak. `link_share`: rate over peak.
    """

    share_pct: float
    ms: float
    step_ms: float
    source: str
    bytes: float | None
    pageable_share: float | None
    bytes_s: float | None
    link_share: float | None
    fastest_pct: float


@once
def copies(facts: Facts) -> Copies | None:
    """The copies of a run on a GPU; None where they are not seen or not worth a look."""
    loop, lost = facts.loop, facts.lost
    if loop is None or lost is None or not facts.device.on_gpu:
        return None
    on_device = lost.device_ms.get("h2d")
    source = "device" if on_device is not None else "steps"
    sent = _sent(loop)
    ms = on_device if on_device is not None else max(loop.ms("h2d"), least_pct(facts) * loop.mean_ms / 100)
    share = 100 * ms / loop.mean_ms
    if on_device is None and lost.total_pct is not None:
        share = min(share, lost.total_pct)
    if share < NOTICE_PCT:
        return None
    unpinned = [step.h2d_pageable_bytes for step in loop.steps if step.h2d_pageable_bytes is not None]
    size = sum(sent) / len(sent) if sent else None
    rate = size / (ms / 1e3) if size and ms else None
    if source == "steps" and ms >= WAITING_MS and rate is not None and rate < WAITING_BYTES_S:
        return None
    peak = _peak(facts)
    return Copies(
        share_pct=min(100.0, share),
        ms=ms,
        step_ms=loop.mean_ms,
        source=source,
        bytes=size,
        pageable_share=_pageable(facts, sum(sent), sum(unpinned) if unpinned else None),
        bytes_s=rate,
        link_share=rate / peak if rate and peak else None,
        fastest_pct=min(share, 100 * size / peak * 1e3 / loop.mean_ms) if size and peak else 0.0,
    )


@once
def least_pct(facts: Facts) -> float:
    """Percent of the step that the copies take at least, at the link's peak, where no event tells how long they took.

    Those that the host does not wait for show in none of its phases, and a utilization counts kernels alone.
    """
    loop, lost, peak = facts.loop, facts.lost, _peak(facts)
    if loop is None or lost is None or lost.source != "nvml" or peak is None:
        return 0.0
    sent = _sent(loop)
    return 100 * sum(sent) / len(sent) / peak * 1e3 / loop.mean_ms if sent else 0.0


def _sent(loop: Loop) -> list[int]:
    """Bytes sent by each step that counted them."""
    return [step.h2d_bytes for step in loop.steps if step.h2d_bytes is not None]


def _pageable(facts: Facts, sent: int, unpinned: int | None) -> float | None:
    """Share of unpinned bytes; where they were not counted, a loader that does not pin says all."""
    if unpinned is not None and sent:
        return unpinned / sent
    loader = facts.loader
    return 1.0 if loader is not None and loader.pin_memory is False else None


def _peak(facts: Facts) -> float | None:
    """Peak of the link at the best generation and width seen, bytes per second."""
    rates = [
        LANE_BYTES_S[gpu.pcie_gen] * gpu.pcie_width
        for gpu in facts.window.gpu
        if gpu.pcie_gen in LANE_BYTES_S and gpu.pcie_width
    ]
    return max(rates, default=None)
