"""Sources: where records come from. Each is polled for records; nothing downstream knows which one it has."""

from __future__ import annotations

from typing import Protocol

from gputop.records import AnyRecord


class Source(Protocol):
    """A stream of records. `name` says where from, `simulated` whether its figures are real."""

    name: str
    simulated: bool

    def clock(self) -> int:
        """Now on the clock of the records' times, in epoch nanoseconds."""

    def poll(self, timeout_s: float) -> list[AnyRecord]:
        """The records that came in, waiting up to `timeout_s` for the first."""

    def warnings(self) -> list[str]:
        """What went wrong so far, in sentences."""

    def waiting(self) -> str | None:
        """What is awaited while there is no run, in words."""

    def done(self) -> bool:
        """Whether nothing will ever come again."""

    def close(self) -> None:
        """Let go of everything at once, waiting for nothing."""
