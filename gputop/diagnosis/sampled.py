"""Runs without a publisher: their times are estimates from stack samples, and everything said of them says so."""

from __future__ import annotations

import re

from gputop.diagnosis.evidence import Facts

CLOCK = "sampled"
STRETCH = "stretch"

TRUST = 0.8
"""How far shares from stack samples can be trusted beside the host's clock: fifty samples of a phase are 14 % off."""

_TAKES = re.compile(r"\b[\d.]+(?: [mu]?s)? of [\d.]+ (?:m?s|us|min) per step \(([\d.]+ %)\)")
_STEP = re.compile(r"\bper step\b|\ban? [\d.]+ m?s step\b")


def how(facts: Facts) -> str | None:
    """How the window's steps were seen: "step" or "stretch" (see records.Step); None when they were measured."""
    return facts.loop.steps[-1].sampled if facts.loop is not None else None


def worded(facts: Facts, headline: str) -> str:
    """A headline that says that it was sampled; of stretches of about a second, no step's time is told."""
    if how(facts) is None:
        return headline
    if how(facts) == STRETCH:
        headline = _TAKES.sub(r"\1 of the time", headline)
        headline = _STEP.sub(lambda found: "per second" if found[0] == "per step" else "a second", headline)
    return f"{headline} (sampled)"


def notices(facts: Facts) -> list[str]:
    """What to say beside the verdict."""
    if how(facts) is None:
        return []
    said = "sampled from outside: shares are estimates"
    if how(facts) == STRETCH:
        said += ", and steps are too short to be told apart"
    return [said + "; start it with `gputop run` to have its steps measured"]
