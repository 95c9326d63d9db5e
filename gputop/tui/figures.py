"""Figures as text: short, steady in width, and never a zero where a value is not known."""

from __future__ import annotations

from math import isfinite

UNKNOWN = "–"
UNSUPPORTED = "n/a"
FAILED = "failed"

_BYTES = ("B", "K", "M", "G", "T", "P")


def ms(value: float | None) -> str:
    """A duration given in milliseconds."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if value < 0.0995:
        return f"{value * 1000:.0f} µs"
    if value < 9.95:
        return f"{value:.1f} ms"
    if value < 9_999.5:
        return f"{value:.0f} ms"
    return seconds(value / 1000)


def seconds(value: float) -> str:
    """A duration in seconds: "4.2 s", "35 s", "2 m 10 s", "1 h 05 m", "3 d 4 h"."""
    if not isfinite(value):
        return UNKNOWN
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} m {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def held(ns: int) -> str:
    """How long something has lasted, coarse so that it rarely repaints: steps of 5 s, then minutes."""
    whole = max(0, ns) // 1_000_000_000
    if whole < 60:
        return f"{whole - whole % 5} s"
    if whole < 3600:
        return f"{whole // 60} m"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} m"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def count(value: int) -> str:
    """A whole number in groups of three."""
    return f"{value:,}".replace(",", " ")


def pct(value: float | None) -> str:
    """A percentage; below one, with a decimal, so that little and nothing differ."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if 0 < value < 0.95:
        return f"{max(0.1, value):.1f} %"
    return f"{value:.0f} %"


def number(value: float | None, digits: int = 1) -> str:
    """A plain number with as many decimals as its size deserves."""
    if value is None or not isfinite(value):
        return UNKNOWN
    if value == 0 or abs(value) >= 99.5:
        return count(round(value))
    text = f"{value:.{0 if abs(value) >= 9.95 else digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text and float(text) == int(float(text)) else text


def size(value: float | None) -> str:
    """Bytes in powers of 1024: "41 G", "3.2 G", "512 M"."""
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
    if value is None or not isfinite(value):
        return UNKNOWN
    return f"{size(value)}B/s" if value >= 1023.5 else f"{value:.0f} B/s"
