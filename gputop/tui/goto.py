"""What a person types to go somewhere on the time axis, understood: a place, or a sentence that says what is wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import NamedTuple

from gputop.records import clean
from gputop.view import Cursor

EXAMPLES = ("01:23:45", "+30s", "-5m", "50%", "step 1200", "14:05")
"""One of each kind, as help and complaints quote them."""

S = 1_000_000_000
DAY_S = 86_400

_UNITS = {"d": DAY_S, "h": 3600, "m": 60, "min": 60, "s": 1, "ms": 0.001}
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|min|d|h|m|s)")
_SUM = re.compile(rf"(?:{_AMOUNT.pattern}\s*)+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_CLOCK = re.compile(r"(\d{1,4}):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_DATED = re.compile(r"(\d{4}-\d\d-\d\d)[ t](\d{1,2}:\d\d(?::\d\d)?)")
_STEP = re.compile(r"(?:steps?\s*|#\s*)(\d{1,18})")
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")


class Place(NamedTuple):
    """Where to go: the moment `t_ns`, or the step of that number."""

    t_ns: int | None = None
    step: int | None = None


class Nowhere(Exception):  # noqa: N818
    """What was typed leads nowhere: why, in a sentence."""


def place(text: str, cursor: Cursor, *, from_start: bool = False) -> Place:
    """The place that `text` names, within what the cursor can reach. Raises Nowhere.

    `+30s` and `-5m` count from where the cursor is and stop at the ends; with `from_start`, + from the start and - from
    the end. Times of the day are local; where one came more than once, that nearest to the cursor is meant.
    """
    word = " ".join(text.lower().split())
    if step := _STEP.fullmatch(word):
        return Place(step=int(step[1]))
    if word in ("start", "begin", "beginning"):
        return Place(cursor.from_ns)
    if word in ("end", "now", "live"):
        return Place(cursor.to_ns)
    if percent := _PERCENT.fullmatch(word):
        return Place(_at_percent(float(percent[1]), cursor))
    if word[:1] in ("+", "-", "−"):
        return Place(_relative(word, cursor, from_start))
    if (dated := _DATED.fullmatch(word)) is not None:
        return Place(_on_date(dated[1], dated[2], cursor, text))
    if (clock := _CLOCK.fullmatch(word.removeprefix("@"))) is not None:
        return Place(_clock(clock, cursor, text, of_day=word.startswith("@")))
    return Place(_inside(cursor.from_ns + int(_seconds(word, text) * S), cursor, text))


def span(seconds: float) -> str:
    """A length or a position as a player shows it: "0:14:32"."""
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def clock_of(t_ns: int) -> str:
    """The local time of the day."""
    try:
        return time.strftime("%H:%M:%S", time.localtime(t_ns // S))
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


def reach(cursor: Cursor) -> str:
    """What can be gone to, in words: "0:58:12 from 13:02:00 to 14:00:12"."""
    long = span((cursor.to_ns - cursor.from_ns) / S)
    return f"{long} long, {clock_of(cursor.from_ns)} to {clock_of(cursor.to_ns)}"


def _no(text: str) -> Nowhere:
    return Nowhere(f"“{clean(text.strip(), 30)}” is no place in time; try {', '.join(EXAMPLES)}")


def _inside(t_ns: int, cursor: Cursor, text: str) -> int:
    if not cursor.from_ns <= t_ns <= cursor.to_ns:
        raise Nowhere(f"{clean(text.strip(), 30)} lies outside of what there is: {reach(cursor)}")
    return t_ns


def _seconds(word: str, text: str) -> float:
    """A length of time: "1h30m", "90 s", "2:30", or a bare number of seconds."""
    try:
        if _NUMBER.fullmatch(word):
            return float(word)
        if _SUM.fullmatch(word):
            return sum(float(amount) * _UNITS[unit] for amount, unit in _AMOUNT.findall(word))
    except OverflowError:
        pass
    raise _no(text)


def _relative(word: str, cursor: Cursor, from_start: bool) -> int:
    sign = 1 if word[0] == "+" else -1
    rest = word[1:].strip()
    if clock := _CLOCK.fullmatch(rest):
        seconds = _hms(clock) if clock[3] else _hms(clock) / 60
    else:
        seconds = _seconds(rest, word)
    base = (cursor.from_ns if sign > 0 else cursor.to_ns) if from_start else cursor.at_ns
    to = base + sign * int(seconds * S)
    return _inside(to, cursor, word) if from_start else min(max(to, cursor.from_ns), cursor.to_ns)


def _at_percent(percent: float, cursor: Cursor) -> int:
    if percent > 100:
        raise Nowhere(f"{percent:g} % lies beyond the end: 0 % is the start, 100 % the end")
    return cursor.from_ns + int((cursor.to_ns - cursor.from_ns) * percent / 100)


def _hms(clock: re.Match[str]) -> float:
    return int(clock[1]) * 3600 + int(clock[2]) * 60 + float(clock[3] or 0)


def _clock(clock: re.Match[str], cursor: Cursor, text: str, *, of_day: bool) -> int:
    """h:mm:ss is a position, as the screen shows it, as long as that exists; h:mm is a time of the day."""
    seconds = _hms(clock)
    position = cursor.from_ns + int(seconds * S)
    if clock[3] and not of_day and position <= cursor.to_ns:
        return position
    if seconds >= DAY_S:
        return _inside(position, cursor, text)
    inside = [t for t in _that_time(seconds, cursor) if cursor.from_ns <= t <= cursor.to_ns]
    if not inside and not clock[3]:
        # The minute named may be the one in which it began or ended.
        near = [t for t in _that_time(seconds, cursor) if cursor.from_ns - 60 * S < t < cursor.to_ns]
        inside = [cursor.from_ns] if near else []
    if not inside:
        raise Nowhere(f"{clean(text.strip(), 30)} lies outside of what there is: {reach(cursor)}")
    return min(inside, key=lambda t: abs(t - cursor.at_ns))


def _that_time(seconds: float, cursor: Cursor) -> Iterator[int]:
    """That time of the day on every day within reach."""
    day = cursor.from_ns // S - DAY_S
    while day <= cursor.to_ns // S + DAY_S:
        local = time.localtime(day)
        midnight = (local.tm_year, local.tm_mon, local.tm_mday, 0, 0, int(seconds), 0, 0, -1)
        yield int(time.mktime(midnight)) * S + int(seconds % 1 * S)
        day += DAY_S


def _on_date(date: str, clock: str, cursor: Cursor, text: str) -> int:
    form = "%Y-%m-%d %H:%M:%S" if clock.count(":") > 1 else "%Y-%m-%d %H:%M"
    try:
        seconds = time.mktime(time.strptime(f"{date} {clock}", form))
    except (ValueError, OverflowError):
        raise _no(text) from None
    return _inside(int(seconds) * S, cursor, text)
