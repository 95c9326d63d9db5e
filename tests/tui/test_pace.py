"""When what is drawn: a terminal that was full is sent less for a while, so that it catches up."""

from __future__ import annotations

from gputop.tui.pace import Pace
from tests.tui import views


def drawn(pace: Pace, from_s: int, to_s: int, *, full: tuple[int, ...] = ()) -> int:
    """How often it is drawn, asked once a second; `full`: the seconds at which the terminal has no room."""
    return sum(pace.due(float(second), takes=second not in full) for second in range(from_s, to_s))


def test_a_terminal_that_cannot_keep_up_is_drawn_to_as_on_a_slow_link_for_a_minute() -> None:
    pace = Pace(views.view(), slow_link=False)
    assert drawn(pace, 0, 25, full=(20, 22, 24)) == 22
    assert drawn(pace, 25, 84) == 12
    assert drawn(pace, 84, 100) == 16
    assert drawn(pace, 100, 110, full=(100, 104)) == 8, "twice is not often"
    assert drawn(pace, 110, 160, full=(110, 150)) < 12, "full again meanwhile: longer"
    assert drawn(pace, 200, 209) < 3


def test_one_that_was_only_stopped_is_drawn_to_as_before() -> None:
    pace = Pace(views.view(), slow_link=False)
    assert drawn(pace, 0, 100, full=tuple(range(20, 60))) == 60


def test_histories_and_wording_move_less_often_then_too() -> None:
    def moves(*full: int) -> tuple[int, int]:
        pace, slow, calm = Pace(views.view(), slow_link=False), 0, 0
        drawn(pace, 0, 10, full=full)
        for second in range(10, 40):
            pace.due(float(second), takes=True)
            before = pace.slow, pace.calm
            pace.look(views.later(views.view(), second), None)
            slow, calm = slow + (pace.slow is not before[0]), calm + (pace.calm is not before[1])
        return slow, calm

    often, seldom = moves(), moves(1, 3, 5)
    assert often == (15, 6)
    assert seldom == (3, 1)
