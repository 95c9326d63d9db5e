"""A run that has changed: its newest steps are all unlike the older ones, which then speak of the past."""

from __future__ import annotations

import msgspec

from gputop.diagnosis.loop import Loop
from gputop.diagnosis.phases import EPISODIC
from gputop.window import Window

NEW_STEPS = 5
"""Steps that must be alike, and unlike those before, for the run to have changed."""

NEW_MS = 2_000.0
"""Time, ms, that these steps must take together: a second or two of odd ones are no change."""

BAND = 1.5
"""How far outside of the newest steps' range the older ones must lie: noise of 30 % stays within."""

CLEAN = 0.9
"""Share of the older steps that must lie outside: where waits or saves come now and then, most steps are alike."""

LARGE = 0.1
"""Part of the newer steps' time by which a role's time must have changed."""


def since_change(window: Window, loop: Loop) -> Window | None:
    """The part of the window since the run has changed for good; None where it hasn't."""
    first = _change(loop)
    if first is None:
        return None
    start = loop.steps[first].t
    return msgspec.structs.replace(
        window,
        from_ns=start,
        steps=tuple(step for step in window.steps if step.t >= start),
        gpu=tuple(gpu for gpu in window.gpu if gpu.t > start) or window.gpu[-1:],
        bursts=tuple(burst for burst in window.bursts if burst.t >= start),
        host=tuple(host for host in window.host if host.t > start) or window.host[-1:],
        process=tuple(process for process in window.process if process.t > start) or window.process[-1:],
        sites=tuple(site for site in window.sites if site.t >= start),
    )


def _change(loop: Loop) -> int | None:
    """Index of the first step since the latest change; None where there was none."""
    dur, most = loop.dur, loop.n - NEW_STEPS
    if most < NEW_STEPS or any(any(loop.roles.get(part, ())) for part in EPISODIC):
        return None
    newest, spent = 0, 0.0
    while newest < most and (newest < NEW_STEPS or spent < NEW_MS):
        newest += 1
        spent += dur[-newest]
    if newest < NEW_STEPS or spent < NEW_MS:
        return None
    least = LARGE * spent / newest
    found = [first for column in loop.roles.values() if (first := _level(column, newest, least)) is not None]
    return max(found, default=None)


def _level(column: list[float], newest: int, least_ms: float) -> int | None:
    """Index from which a role's times are all of the size of the newest ones, where those before were not."""
    if max(column) < least_ms:
        return None
    tail = column[-newest:]
    low, high = min(tail) / BAND, max(tail) * BAND
    if low <= min(column) and max(column) <= high:
        return None
    first = len(column) - newest
    while first and low <= column[first - 1] <= high:
        first -= 1
    before = column[:first]
    if len(before) < NEW_STEPS:
        return None
    outside = sum(not low <= ms <= high for ms in before)
    moved = abs(sum(before) / len(before) - sum(tail) / newest)
    return first if outside >= CLEAN * len(before) and moved >= least_ms else None


def as_seen(loop: Loop, whole: Loop) -> Loop:
    """The loop since a change, with the number of steps that are known of the run: it is as sure as before."""
    return msgspec.structs.replace(loop, seen=max(loop.seen, whole.seen), missing=whole.missing)
