"""Which of several runs is shown, while runs come and go."""

from __future__ import annotations

from msgspec.structs import replace

from gputop.tui.choice import Choice
from gputop.view import Cursor, View, run_shown
from tests.tui import views

RUNS = {run.run.run_id: run for run in views.many_runs(3).runs}


def there(*ids: str, over: str = "") -> View:
    """A view with these runs, in this order, one of them ended."""
    return views.view(runs=tuple(replace(RUNS[one], state="ended") if one == over else RUNS[one] for one in ids))


def follow(choice: Choice, *sights: View) -> tuple[list[str | None], list[str | None]]:
    """What is shown of each, and what the picture was told to mean."""
    meant: list[str | None] = []
    shown = []
    for view in sights:
        choice.look(view, meant.append)
        shown.append(choice.id)
    return shown, meant


def test_what_is_shown_stays_while_it_trains() -> None:
    sights = there("r1"), there("r0", "r1"), there("r0", "r1", over="r1"), there(), there("r2", "r0")
    assert follow(Choice(), *sights) == (["r1", "r1", "r0", None, "r2"], ["r1", None])


def test_what_was_picked_is_shown_whenever_it_is_there() -> None:
    choice = Choice()
    choice.pick("r1", lambda run_id: None)
    sights = there("r0", "r1"), there("r0", "r1", over="r1"), there("r2"), there("r0", "r2"), there("r0", "r1", "r2")
    assert follow(choice, *sights) == (["r1", "r1", "r2", "r2", "r1"], [None, "r2", "r1"])


def test_when_all_have_ended_the_one_that_trained_last_is_shown() -> None:
    s = 1_000_000_000
    ends = {"r0": 100 * s, "r1": 500 * s, "r2": 501 * s}
    runs = tuple(replace(RUNS[one], state="ended", last_ns=end) for one, end in ends.items())
    shown = run_shown(views.view(runs=runs), None)
    assert shown is not None
    assert shown.run.run_id == "r1"


def test_what_a_recording_was_made_for_is_shown_before_what_went_on_beside() -> None:
    cursor = Cursor(
        from_ns=0, to_ns=1, at_ns=0, live=False, playing=True, speed=1.0, replay=True, meant=frozenset({"r1", "r2"})
    )
    sights = [replace(there(*ids), cursor=cursor) for ids in (("r0",), ("r0", "r2"), ("r0", "r1", "r2"))]
    over = replace(there("r0", "r2", over="r2"), cursor=cursor)
    shown, _ = follow(Choice(), *sights, over)
    assert shown[:3] == ["r0", "r2", "r2"]
    found = run_shown(over, None)
    assert found is not None
    assert found.run.run_id == "r2"
