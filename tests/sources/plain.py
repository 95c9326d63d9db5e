"""A source with nothing to tell: what fakes of sources begin with."""

from __future__ import annotations

from gputop.recording.past import Past
from gputop.sources import Transport


class Plain:
    """No axis of its own, no warnings, never done. `woken` counts wakes."""

    name = "fake"
    simulated = False

    def __init__(self) -> None:
        self.woken = 0

    def jumped(self, column_ns: int) -> Past | None:
        return None

    def transport(self) -> Transport | None:
        return None

    def wake(self) -> None:
        self.woken += 1

    def warnings(self) -> list[str]:
        return []

    def waiting(self) -> str | None:
        return None

    def done(self) -> bool:
        return False

    def close(self) -> None:
        pass
