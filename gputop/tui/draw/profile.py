"""What the framework's own profiler saw when it was asked: figures of a step, the costliest operators and kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gputop.records import Profile, clean
from gputop.tui import figures
from gputop.tui.lines import Line, Span, fit, pieces, wrap
from gputop.tui.tables import Column, choose, heading, row

MOST = 8
"""Rows of each table."""

MS = 1e6


def section(profile: Profile, now_ns: int, width: int) -> list[Line]:
    """The profile: its figures, then its tables. All are of the mean profiled step."""
    steps = max(1, profile.steps)
    age = figures.held(now_ns - profile.t)
    about = f"of {profile.steps} step{'' if profile.steps == 1 else 's'}, {age} ago; profiled steps are in no mean"
    lines = [fit([], width), fit([Span(" profile", "title"), Span(f"  {about}", "dim")], width)]
    lines += [fit([Span("   "), Span(text)], width) for text in wrap(", ".join(_facts(profile, steps)), width - 4, 4)]
    lines += _table("operators, by their own time", profile.top_ops, "self_ns", steps, width)
    lines += _table("kernels", profile.top_kernels, "ns", steps, width)
    copies = [{"name": name, **told} for name, told in (profile.copies or {}).items() if isinstance(told, dict)]
    copies.sort(key=lambda one: -(_number(one.get("ns")) or 0))
    return lines + _table("copies", copies, "ns", steps, width) + _waits(profile, steps, width)


def _facts(profile: Profile, steps: int) -> list[str]:
    facts = []
    if profile.gpu_busy_pct is not None:
        facts.append(f"some kernel ran {figures.pct(profile.gpu_busy_pct)} of the time")
    if profile.kernel_count is not None:
        mean = "" if profile.mean_kernel_ns is None else f" of {figures.ms(profile.mean_kernel_ns / MS)} each"
        facts.append(f"{figures.count(profile.kernel_count)} kernels a step{mean}")
    if profile.syncs is not None:
        facts.append(f"{figures.number(profile.syncs / steps)} waits for the device a step")
    return facts or ["no device was in use: host times only"]


def _table(title: str, found: Sequence[dict[str, Any]] | None, field: str, steps: int, width: int) -> list[Line]:
    rows = [one for one in found or () if isinstance(one, dict)][:MOST]
    if not rows:
        return []
    columns = (
        Column(title, max(20, min(76, width - 34)), number=False), Column("a step", 9, rank=0),
        Column("calls", 8, rank=1), Column("each", 9, rank=2),
    )  # fmt: skip
    kept = choose(columns, width - 2)
    lines = [fit([], width), heading(columns, kept, width)]
    for one in rows:
        ns, calls = _number(one.get(field)), _number(one.get("calls"))
        cells = [
            Span(clean(str(one.get("name", figures.UNKNOWN)), 300)),
            Span(figures.UNKNOWN if ns is None else figures.ms(ns / steps / MS), "bold"),
            Span(figures.UNKNOWN if calls is None else figures.number(calls / steps), "dim"),
            Span(figures.UNKNOWN if ns is None or not calls else figures.ms(ns / calls / MS), "dim"),
        ]
        lines.append(row(columns, kept, cells, width))
    return lines


def _waits(profile: Profile, steps: int, width: int) -> list[Line]:
    """The lines at which operators made the host wait for the device."""
    found = [one for one in profile.wait_sites or () if isinstance(one, dict)][:MOST]
    if not found:
        return []
    columns = Column("lines that wait for the device", max(30, min(76, width - 34)), number=False), Column("a step", 9)
    kept = choose(columns, width - 2)
    lines = [fit([], width), heading(columns, kept, width)]
    for one in found:
        count = _number(one.get("count"))
        cells = [
            Span(clean(str(one.get("site", figures.UNKNOWN)), 300)),
            Span(figures.UNKNOWN if count is None else figures.number(count / steps), "bold"),
        ]
        lines.append(row(columns, kept, cells, width))
    return lines


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def offer(width: int) -> list[Line]:
    """How one is asked for."""
    text = "P asks the training to run the framework's own profiler over its next steps"
    return [
        fit([], width),
        fit([Span(" profile", "title"), Span("  "), Span(pieces([text], width - 11), "dim")], width),
    ]
