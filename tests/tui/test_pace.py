"""When what is drawn: a terminal that was full is sent less for a while, so that it catches up."""

from __future__ import annotations

from gputop.tui.pace import Pace
from tests.tui import views


def drawn(pace: Pace, from_s: int, to_s: int, *, full: bool = False) -> int:
    """How often it is drawn, asked once a second."""
    return sum(pace.due(float(second), takes=not full) for second in range(from_s, to_s))


def test_after_a_terminal_was_full_it_is_drawn_to_as_on_a_slow_link_for_a_minute() -> None:
    pace = Pace(views.view(), slow_link=False)
    assert drawn(pace, 0, 20) == 20
    assert drawn(pace, 20, 30, full=True) == 0
    assert drawn(pace, 30, 80) == 10
    assert drawn(pace, 100, 120) == 20


def test_histories_and_wording_move_less_often_then_too() -> None:
    def moves(full: bool) -> tuple[int, int]:
        pace, slow, calm = Pace(views.view(), slow_link=False), 0, 0
        pace.due(0.0, takes=not full)
        for second in range(1, 31):
            pace.due(float(second), takes=True)
            before = pace.slow, pace.calm
            pace.look(views.later(views.view(), second), None)
            slow, calm = slow + (pace.slow is not before[0]), calm + (pace.calm is not before[1])
        return slow, calm

    assert moves(full=False) == (15, 6)
    assert moves(full=True) == (3, 1)
