"""First, do no harm: what goes wrong inside the publisher is said once on the logger `gputop` and ends there."""

from __future__ import annotations

import logging

log = logging.getLogger("gputop")

_said: set[str] = set()


def confess(where: str, error: BaseException) -> None:
    """One warning for each place, ever; never raises."""
    try:
        if where in _said:
            return
        _said.add(where)
        log.warning("gputop stops watching here (%s): %s: %s", where, type(error).__name__, error)
    except Exception:
        return


def mention(text: str) -> None:
    """One line said once; never raises."""
    try:
        if text not in _said:
            _said.add(text)
            log.warning("gputop: %s", text)
    except Exception:
        return
