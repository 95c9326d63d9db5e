"""Figures as people read them: milliseconds, spans, shares, bytes. Used alike in words and on the page."""

from __future__ import annotations

import time

GIB = 1024**3


def count(value: float) -> str:
    """A count, thousands apart."""
    return f"{round(value):,}".replace(",", " ")


def ms(value: float) -> str:
    """A duration given in ms."""
    if value >= 600_000:
        return span(value / 1000)
    if value >= 10_000:
        return f"{value / 1000:.1f} s"
    if value >= 1000:
        return f"{value / 1000:.2f} s"
    return f"{value:.0f} ms" if value >= 100 else f"{value:.3g} ms"


def span(seconds: float) -> str:
    """A long duration given in seconds."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    days, rest = divmod(round(seconds), 86400)
    hours, rest = divmod(rest, 3600)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {rest // 60} min" if hours else f"{rest // 60} min {rest % 60} s"


def pct(value: float) -> str:
    """A share in percent; a small one is not none."""
    if 0 < value < 0.95:
        return f"{value:.1f} %" if value >= 0.05 else "<0.1 %"
    return f"{value:.0f} %"


def rate(value: float) -> str:
    """So many a second."""
    return count(value) if value >= 1000 else f"{value:.3g}"


def gib(value: float) -> str:
    """Bytes as GiB."""
    return f"{value / GIB:.1f}"


def moment(t_ns: int, day: bool = True) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S", time.localtime(t_ns / 1e9))
