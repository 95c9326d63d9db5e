"""Moving a picture along its time axis: what each key asks of it, and why not where it can't."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gputop.tui.goto import Place
from gputop.tui.options import Picture
from gputop.view import Cursor, View


class Reach(NamedTuple):
    """A picture, the view of it that is shown, its cursor, and how many columns of history are in sight."""

    picture: Picture
    view: View
    cursor: Cursor
    columns: int


NO_TIME_AXIS = "there is no past to go to yet"


def travel(name: str, picture: Picture, view: View, columns: int) -> str:
    """Does the move of that name (see MOVES); gives a sentence where it can't be done, or where what it did is easily
    overlooked, else ""."""
    if view.cursor is None:
        return NO_TIME_AXIS
    return MOVES[name](Reach(picture, view, view.cursor, columns)) or ""


def go(place: Place, picture: Picture, absent: Callable[[], object]) -> None:
    """Goes to a place. `absent` is called, later and from any thread, where there is no such step."""
    if place.step is not None:
        picture.seek_step(place.step, absent)
    elif place.t_ns is not None:
        picture.seek(place.t_ns)


def _by(reach: Reach, columns: int) -> str | None:
    if columns > 0 and reach.cursor.live:
        return _AT_END if reach.cursor.replay else _NOW
    reach.picture.seek_by(columns * reach.view.column_ns)
    return None


_NOW = "this is now; ← goes back in time"
_AT_END = "this is the newest of the recording"


def _to_end(reach: Reach) -> str | None:
    if reach.cursor.live and not reach.cursor.replay:
        return _NOW
    reach.picture.to_end()
    return None


def _in_a_replay(does: Callable[[Reach], str | None], else_say: str) -> Callable[[Reach], str | None]:
    def move(reach: Reach) -> str | None:
        return does(reach) if reach.cursor.replay else else_say

    return move


def _skip_idle(reach: Reach) -> str:
    reach.picture.toggle_skip_idle()
    return "stretches without training are shown again" if reach.cursor.skip_idle else _SKIPPED


_SKIPPED = "stretches without training are left out; the same key shows them"
_SPEED = "what is live can't run faster or slower; + and - are for a replay"
_IDLE = "idle stretches can be skipped in a replay only"

MOVES: dict[str, Callable[[Reach], str | None]] = {
    "toggle": lambda reach: reach.picture.toggle(),
    "back": lambda reach: _by(reach, -1),
    "on": lambda reach: _by(reach, 1),
    "page_back": lambda reach: _by(reach, -reach.columns),
    "page_on": lambda reach: _by(reach, reach.columns),
    "last_change": lambda reach: reach.picture.jump(-1),
    "next_change": lambda reach: reach.picture.jump(1),
    "step_back": lambda reach: reach.picture.step(-1),
    "step_on": lambda reach: reach.picture.step(1),
    "faster": _in_a_replay(lambda reach: reach.picture.faster(), _SPEED),
    "slower": _in_a_replay(lambda reach: reach.picture.slower(), _SPEED),
    "to_start": lambda reach: reach.picture.seek(reach.cursor.from_ns),
    "to_end": _to_end,
    "skip_idle": _in_a_replay(_skip_idle, _IDLE),
}
"""Every move by name; each gives a sentence where there is something to say."""
