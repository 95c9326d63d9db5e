"""What a cause's examination yields: how much it explains, what speaks for and against, what to do and to gain."""

from __future__ import annotations

import msgspec

from gputop.diagnosis.evidence import Facts
from gputop.records import Advice, Evidence


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A cause as one possible answer. `share_pct` is the step time (on a GPU: device time) that it explains.

    `fit` (0 to 1) is how far the independent signals agree with it. `estimated`: the share rests on an estimate, and
    ranks after an equal measurement. `upper`: an upper bound, which ranks after both. `state`: nothing else is looked
    at (stalled, warm-up). `healthy`: no fault, so the share is what is in order. `certain`: a placement fault that no
    share outweighs. `beside`: it holds a busy device back as well, so that a busy device does not clear it. `gain_pct`:
    what of the share a cure could win before the next limit, where that is less.
    """

    cause: str
    family: str
    share_pct: float
    fit: float
    headline: str
    evidence: list[Evidence] = []
    advice: list[Advice] = []
    speedup_limit: float | None = None
    estimated: bool = False
    upper: bool = False
    state: bool = False
    healthy: bool = False
    certain: bool = False
    beside: bool = False
    gain_pct: float | None = None
    notices: list[str] = []

    @property
    def score(self) -> float:
        """What candidates are ranked by: the share explained, as far as the signals agree."""
        rank = UPPER_RANK if self.upper else ESTIMATE_RANK if self.estimated else 1.0
        share = self.share_pct if self.gain_pct is None else min(self.share_pct, self.gain_pct)
        return share * self.fit * rank


ESTIMATE_RANK = 0.95
"""An estimated share counts this much of a measured one, so that it ranks after an equal measurement."""

UPPER_RANK = 0.75
"""The same for a share that is only known to be no larger: after a wait for data every queue is found empty."""


DOUBT = 0.2
"""Weight of what no signal shows: however many agree, none of them is proof."""


class Case:
    """Evidence as it is gathered for one cause; signals that are not known are left out and count for nothing."""

    def __init__(self, facts: Facts) -> None:
        self.window_s = facts.window_s
        self.evidence: list[Evidence] = []
        self._for = 0.0
        self._against = 0.0

    def at_least(
        self,
        signal: str,
        value: float | None,
        threshold: float,
        unit: str,
        source: str,
        weight: float = 1.0,
    ) -> bool:
        """Weigh a signal that supports the cause from `threshold` upwards; whether it does."""
        return self.weigh(signal, value, None if value is None else value >= threshold, unit, source, weight, threshold)

    def at_most(
        self,
        signal: str,
        value: float | None,
        threshold: float,
        unit: str,
        source: str,
        weight: float = 1.0,
    ) -> bool:
        """Weigh a signal that supports the cause up to `threshold`; whether it does."""
        return self.weigh(signal, value, None if value is None else value <= threshold, unit, source, weight, threshold)

    def weigh(
        self,
        signal: str,
        value: float | str | None,
        supports: bool | None,
        unit: str | None,
        source: str,
        weight: float = 1.0,
        threshold: float | None = None,
    ) -> bool:
        """Weigh a signal for (True) or against (False) the cause; None: not known. Whether it supports."""
        if supports is None or value is None:
            return False
        if supports:
            self._for += weight
        else:
            self._against += weight
        self.evidence.append(
            Evidence(
                signal=signal,
                value=round(value, 3) if isinstance(value, float) else value,
                unit=unit,
                threshold=threshold,
                supports=supports,
                source=source,
                window_s=round(self.window_s, 1),
            )
        )
        return supports

    def missing(self, weight: float) -> None:
        """A signal that the cause can hardly be told without is not known: it counts as half in favour."""
        self._for += weight / 2
        self._against += weight / 2

    def any_of(self, weight: float, source: str, *signals: tuple[str, float | None, float, str]) -> bool:
        """Weigh signals of which one is enough, each (name, value, threshold, unit); whether one supports."""
        seen = [signal for signal in signals if signal[1] is not None]
        hits = [signal for signal in seen if signal[1] is not None and signal[1] >= signal[2]]
        for name, value, threshold, unit in hits or seen:
            self.at_least(name, value, threshold, unit, source, weight / len(hits or seen))
        return bool(hits)

    @property
    def fit(self) -> float:
        """Weight of the signals for the cause, of all that are known."""
        whole = self._for + self._against
        return self._for / (whole + DOUBT) if whole else 0.0


def speedup(share_pct: float, floor_pct: float = 0.0) -> float | None:
    """Step time now over step time without the share, which cannot fall below `floor_pct` of it: the next limit.

    None where nothing would be left: the bound is then not known.
    """
    left = max(100.0 - share_pct, floor_pct)
    return round(100.0 / left, 2) if left > 1e-9 else None
