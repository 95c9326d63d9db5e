"""What the screen is given: where its views come from and how the person wants them drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from gputop.view import View

if TYPE_CHECKING:
    from gputop.recording.recorder import Recorder

Color = Literal["auto", "none", "16", "256", "truecolor"]
Theme = Literal["auto", "dark", "light", "contrast", "ansi"]


class Controls(Protocol):
    """What moves a picture along its time axis and records it. Each returns at once; a later view shows what it did."""

    def select(self, run_id: str | None) -> None:
        """Mean this run by steps and changes of the verdict; None: the first."""

    def toggle(self) -> None:
        """Pause or play; while it is paused, data is still collected."""

    def seek(self, t_ns: int) -> None:
        """Go to a moment."""

    def seek_by(self, delta_ns: int) -> None:
        """Go that much later."""

    def seek_step(self, n: int, absent: Callable[[], object] = ...) -> None:
        """Go to where a step of the run began. Where there is none, nothing moves and `absent` is called, on whatever
        thread found that out."""

    def step(self, direction: int) -> None:
        """Pause, and go to the end of the next (1) or the previous (-1) step."""

    def jump(self, direction: int) -> None:
        """Go to the next (1) or the previous (-1) change of the verdict, or mark."""

    def faster(self) -> None:
        """Replay at the next higher speed."""

    def slower(self) -> None:
        """Replay at the next lower speed."""

    def to_end(self) -> None:
        """Go to the end of a recording, or back to now."""

    def toggle_skip_idle(self) -> None:
        """Leave out stretches in which nothing trains, or show them again."""

    def profile(self, steps: int) -> None:
        """Ask the run that is meant to profile its next steps; the answer comes with a later view, or as a warning."""

    def attach(self, pid: int, refused: Callable[[str], object] = ...) -> None:
        """Watch a process that has no publisher from outside. Where that can't be, `refused` is told why, on whatever
        thread found that out."""

    def record(self, recorder: Recorder) -> None:
        """Give what comes in to a recorder too."""

    def stop_recording(self) -> None:
        """End the recording."""


class Picture(Controls, Protocol):
    """Where views come from. `view` returns the latest one at once and never waits; `ended` says that none will
    follow; `close` ends what feeds it."""

    def view(self) -> View: ...

    def ended(self) -> bool: ...

    def close(self) -> None: ...


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How to draw. `refresh` is in seconds; `color` "auto" and `ascii` False leave the choice to the terminal."""

    refresh: float = 1.0
    ascii: bool = False
    color: Color = "auto"
    theme: Theme = "auto"
    mouse: bool = True
    slow_link: bool = False
    no_cmdline: bool = False
    debug: bool = False
    until_end: bool = False
    keys: dict[str, str] = {}
    """Remapped keys, by the id of their binding."""
    faults: tuple[str, ...] = ()
    """What is wrong with the configuration, each in a sentence."""
    config: str = ""
    """Where the configuration file is: what is remembered on request goes there."""


SLOW_REFRESH_S = 5.0
"""How often figures change on a slow link, where nothing else was asked for."""


def options_from(given: Mapping[str, Any]) -> Options:
    """The options as the command line names them (`no_color`, `ascii_`, `no_mouse` ...); what is absent or None is the
    default."""
    slow = bool(given.get("slow_link"))
    return Options(
        refresh=given.get("refresh") or (SLOW_REFRESH_S if slow else 1.0),
        ascii=bool(given.get("ascii_") or given.get("ascii")),
        color="none" if given.get("no_color") else given.get("color") or "auto",
        theme=given.get("theme") or "auto",
        mouse=not given.get("no_mouse"),
        slow_link=slow,
        no_cmdline=bool(given.get("no_cmdline")),
        debug=bool(given.get("debug")),
        until_end=bool(given.get("until_end")),
        keys=dict(given.get("keys") or {}),
        faults=tuple(given.get("faults") or ()),
        config=str(given.get("config") or ""),
    )
