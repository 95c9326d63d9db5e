"""Sources: where records come from. Each is polled for records; nothing downstream knows which one it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import msgspec

from gputop.recording.past import Past
from gputop.records import AnyRecord


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """Where on a time axis one stands; the fields are those of `view.Cursor`."""

    from_ns: int
    to_ns: int
    at_ns: int
    live: bool
    playing: bool
    speed: float = 1.0
    at_end: bool = False
    skip_idle: bool = False


class Transport(Protocol):
    """What moves along a time axis. Used by the thread that polls, and by no other; no method waits.

    `replay` says whether it is a recording's axis. `run_id` None means the first run there is.
    """

    replay: bool

    def position(self) -> Position:
        """Where it stands now."""

    def play(self) -> None:
        """Move on from here; what is live moves on from now."""

    def pause(self) -> None:
        """Stand still."""

    def seek(self, t_ns: int) -> None:
        """Go to a moment, or the nearest there is."""

    def to_end(self) -> None:
        """Go to the end, or to now."""

    def faster(self) -> None:
        """Take the next higher speed."""

    def slower(self) -> None:
        """Take the next lower speed."""

    def toggle_skip_idle(self) -> None:
        """Pass over stretches without a step while playing, or don't."""

    def step_start(self, n: int, run_id: str | None) -> int | None:
        """When step `n` of a run began, or the first one held after it; None where there is none."""

    def step_end(self, direction: int, run_id: str | None) -> int | None:
        """When the next (1) or the previous (-1) train step of a run is over, seen from here; None where there is
        none."""

    def meant(self) -> frozenset[str]:
        """The runs that the recording was made for; none where it doesn't say, and of what is live."""

    def changes(self, run_id: str | None) -> tuple[tuple[int, str], ...]:
        """When each cause began to hold for a run, over the whole span."""

    def marks(self) -> tuple[tuple[int, str], ...]:
        """Moments of events and their kinds, in time order, over the whole span."""

    def moment(self, t_ns: int) -> Past | None:
        """What is known at a moment, enough to judge it; None where only recordings tell."""


class Source(Protocol):
    """A stream of records. `name` says where from, `simulated` whether its figures are real."""

    name: str
    simulated: bool

    def clock(self) -> int:
        """Now on the clock of the records' times, in epoch nanoseconds."""

    def poll(self, timeout_s: float) -> list[AnyRecord]:
        """The records that came in, waiting up to `timeout_s` for the first."""

    def jumped(self, column_ns: int) -> Past | None:
        """What is known at the moment jumped to since this was asked last, its histories in columns of this width; None
        where nothing jumped. The records polled since then follow that moment."""

    def transport(self) -> Transport | None:
        """What moves it in time; None where there is only now."""

    def wake(self) -> None:
        """Make a poll that waits return. Any thread may call this."""

    def warnings(self) -> list[str]:
        """What went wrong so far, in sentences."""

    def waiting(self) -> str | None:
        """What is awaited while there is no run, in words."""

    def done(self) -> bool:
        """Whether nothing will ever come again."""

    def close(self) -> None:
        """Let go of everything at once, waiting for nothing."""


@runtime_checkable
class Attaches(Protocol):
    """A source that can watch a process which has no publisher."""

    def attach(self, pid: int, refused: Callable[[str], object] = ...) -> None:
        """Watch a process by samples of its stacks. Raises samplers.attach.tool.Refused; what only the attempt shows,
        `refused` is told later by the thread that polls."""


@runtime_checkable
class Profiles(Protocol):
    """A source of trainings that can be asked to profile themselves."""

    def profile(self, run_id: str, steps: int) -> None:
        """Ask a training to profile its next steps. What it answers comes as records, or among the warnings."""
