"""How figures are written, everywhere: on the screen, in verdicts, reports, logs and answers.

Counts have commas (1,919). What memory holds is in powers of 1024 (GiB, as drivers tell it); files and transfers are in
powers of 1000 (MB, MB/s, as disks and links are rated). Where only ASCII can be shown, whoever prints puts u for µ.
"""

from __future__ import annotations

import time
from math import isfinite

GIB = 1024**3


def count(value: float) -> str:
    """A whole number, thousands apart: "1,919"; what is no number as it is: "inf"."""
    return f"{value:,.0f}"


def counted(value: float, noun: str) -> str:
    """A count with its noun: "1 step", "1,919 steps"."""
    return f"{count(value)} {noun}{'' if 0.5 < value < 1.5 else 's'}"


def ms(value: float, *, coarse: bool = False) -> str:
    """A duration given in milliseconds, in the unit that suits it: "87.3 µs", "4.21 ms", "1.23 s", "2 min 05 s".

    Three digits; coarse, for what is drawn again and again, two below ten and whole ones above.
    """
    if value < 0.9995:
        return f"{_digits(value * 1000, coarse)} µs"
    if value < 999.5:
        return f"{_digits(value, coarse)} ms"
    if value < 9_995:
        return f"{value / 1000:.2f} s"
    return f"{value / 1000:.1f} s" if value < 99_500 and not coarse else span(value / 1000)


def span(seconds: float) -> str:
    """How long something lasted: "4.2 s", "35 s", "2 min 10 s", "1 h 05 min", "3 d 4 h"."""
    if seconds < 9.95 or not isfinite(seconds):
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def pct(value: float) -> str:
    """A share in percent; a small one is not none."""
    if 0 < value < 0.95:
        return f"{value:.1f} %" if value >= 0.05 else "<0.1 %"
    return f"{value:.0f} %"


def rate(value: float) -> str:
    """So many a second: "0.42", "12.3", "982", "1,240"."""
    return count(value) if value >= 999.5 else f"{value:.3g}"


def size(bytes_: float, *, coarse: bool = False) -> str:
    """A file's size, or what was transferred: "475 kB", "1.5 MB"."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if bytes_ >= 0.9995 * factor:
            return f"{_digits(bytes_ / factor, coarse)} {unit}"
    return f"{bytes_:.0f} B"


def bytes_s(value: float, *, coarse: bool = False) -> str:
    """A rate of transfer: "120 MB/s"."""
    return f"{size(value, coarse=coarse)}/s"


def gib(bytes_: float) -> str:
    """What memory holds, as a number of GiB."""
    return f"{bytes_ / GIB:.1f}"


def memory(bytes_: float) -> str:
    """What memory holds: "512 MiB", "1.5 GiB"."""
    return f"{bytes_ / 1024**2:.0f} MiB" if bytes_ < 1023.5 * 1024**2 else f"{gib(bytes_)} GiB"


def used_of(used: float, total: float) -> str:
    """Memory in use of all there is: "41.0 of 80 GiB"."""
    return f"{gib(used)} of {total / GIB:.0f} GiB"


def number(value: float) -> str:
    """A plain figure, three digits of it: "7.28", "1,240"."""
    return count(value) if abs(value) >= 999.5 else f"{value:.3g}"


def moment(t_ns: int, day: bool = True) -> str:
    """A moment in local time."""
    return time.strftime("%Y-%m-%d %H:%M:%S" if day else "%H:%M:%S", time.localtime(t_ns / 1e9))


def _digits(value: float, coarse: bool) -> str:
    if not coarse:
        return f"{value:.0f}" if value >= 99.95 else f"{value:.3g}"
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"
