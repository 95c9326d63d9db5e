"""Figures where room is short and repainting costs: as gputop.figures has them, but coarser, and with signs for what is
not known."""

from __future__ import annotations

from math import isfinite

from gputop import figures

UNKNOWN = "–"
UNSUPPORTED = "n/a"
FAILED = "failed"

_BYTES = ("B", "K", "M", "G", "T", "P")

count = figures.count
counted = figures.counted


def file_size(bytes_: float) -> str:
    """A file's size, in powers of 1000: "475 kB", "1.2 MB"."""
    return figures.size(bytes_, coarse=True)


def ms(value: float | None) -> str:
    """A duration given in milliseconds."""
    return UNKNOWN if value is None or not isfinite(value) else figures.ms(value, coarse=True)


def seconds(value: float) -> str:
    """A duration in seconds: "4.2 s", "35 s", "2 min 10 s", "1 h 05 min", "3 d 4 h"."""
    return figures.span(value) if isfinite(value) else UNKNOWN


def held(ns: int) -> str:
    """How long something has lasted, coarse so that it rarely repaints: steps of 5 s, then minutes."""
    whole = max(0, ns) // 1_000_000_000
    if whole < 60:
        return f"{whole - whole % 5} s"
    return f"{whole // 60} min" if whole < 3600 else figures.span(whole)


def pct(value: float | None) -> str:
    """A percentage; below one, with a decimal, so that little and nothing differ."""
    return UNKNOWN if value is None or not isfinite(value) else figures.pct(value)


def number(value: float | None, digits: int = 1) -> str:
    """A plain number with as many decimals as its size deserves."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if value == 0 or abs(value) >= 99.5:
        return count(value)
    text = f"{value:.{0 if abs(value) >= 9.95 else digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(text) == int(float(text)) else text


def size(value: float | None) -> str:
    """What memory holds, in powers of 1024: "41 G", "3.2 G", "512 M"."""
    if value is None or not isfinite(value):
        return UNKNOWN
    amount, unit = float(value), 0
    while amount >= 1023.5 and unit < len(_BYTES) - 1:
        amount /= 1024
        unit += 1
    return f"{amount:.1f} {_BYTES[unit]}" if unit and amount < 9.95 else f"{amount:.0f} {_BYTES[unit]}"


def used_of(used: float | None, total: float | None) -> str:
    """Memory in use and in all, in the unit of the total: "41/80 G"."""
    if used is None or total is None:
        return size(used if total is None else total) if (used, total) != (None, None) else UNKNOWN
    amount, unit = float(total), 0
    while amount >= 1023.5 and unit < len(_BYTES) - 1:
        amount /= 1024
        unit += 1
    scaled = used / 1024**unit
    return f"{scaled:.1f}/{amount:.1f} {_BYTES[unit]}" if amount < 9.95 else f"{scaled:.0f}/{amount:.0f} {_BYTES[unit]}"


def rate(value: float | None) -> str:
    """Bytes a second."""
    return UNKNOWN if value is None or not isfinite(value) else figures.bytes_s(value, coarse=True)
