"""What may be typed to go somewhere, and what is said of the rest."""

from __future__ import annotations

import calendar
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.tui.asking import MOST, Question
from gputop.tui.goto import EXAMPLES, Nowhere, Place, place, span
from gputop.tui.lines import plain
from gputop.view import Cursor

S = 1_000_000_000
START = calendar.timegm((2026, 3, 1, 13, 2, 0)) * S


def cursor(hours: float = 2.0, at_s: float = 600.0) -> Cursor:
    long = int(hours * 3600 * S)
    return Cursor(
        from_ns=START, to_ns=START + long, at_ns=START + int(at_s * S), live=False, playing=True, speed=1.0, replay=True
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("01:23:45", 5025),
        (" 1:23:45 ", 5025),
        ("0:00:00", 0),
        ("+30s", 630),
        ("+30", 630),
        ("+1:30", 690),
        ("+0:01:30", 690),
        ("-5m", 300),
        ("−5 min", 300),
        ("+1h", 4200),
        ("+1h 1m", 4260),
        ("-1h", 0),
        ("+9h", 7200),
        ("50%", 3600),
        ("12.5 %", 900),
        ("100%", 7200),
        ("90", 90),
        ("90s", 90),
        ("1h30m", 5400),
        ("14:05", 63 * 60),
        ("13:02", 0),
        ("@14:05:10", 63 * 60 + 10),
        ("14:05:10", 63 * 60 + 10),
        ("2026-03-01 14:05", 63 * 60),
        ("2026-03-01T14:05:10", 63 * 60 + 10),
        ("start", 0),
        ("END", 7200),
        ("now", 7200),
    ],
)
def test_places_in_time(text: str, seconds: float) -> None:
    assert place(text, cursor()) == Place(START + int(seconds * S))


@pytest.mark.parametrize("text", ["step 1200", "steps 1200", "#1200", "# 1200", "STEP  1200"])
def test_places_by_step(text: str) -> None:
    assert place(text, cursor()) == Place(step=1200)


def test_every_example_is_understood() -> None:
    for text in EXAMPLES:
        place(text, cursor())


@pytest.mark.parametrize(("text", "seconds"), [("+30s", 30), ("-5m", 6900), ("-0", 7200)])
def test_from_the_command_line_plus_counts_from_the_start_and_minus_from_the_end(text: str, seconds: float) -> None:
    assert place(text, cursor(), from_start=True) == Place(START + seconds * S)


def test_a_position_of_three_parts_is_a_time_of_the_day_where_there_is_no_such_position() -> None:
    assert place("1:30:00", cursor()) == Place(START + 5400 * S)
    assert place("14:30:00", cursor()) == Place(START + 88 * 60 * S)
    assert place("14:30:00", cursor(hours=48)) == Place(START + (14 * 3600 + 1800) * S)


def test_a_time_of_the_day_that_came_twice_is_the_nearest() -> None:
    two_days = cursor(hours=48, at_s=26 * 3600)
    assert place("14:05", two_days) == Place(START + (24 * 3600 + 63 * 60) * S)
    assert place("14:05", cursor(hours=48, at_s=0)) == Place(START + 63 * 60 * S)


def test_the_minute_in_which_it_began_is_its_beginning() -> None:
    late = Cursor(from_ns=START + 30 * S, to_ns=START + 600 * S, at_ns=START + 30 * S, live=False, playing=False,
                  speed=1.0, replay=True)  # fmt: skip
    assert place("13:02", late) == Place(START + 30 * S)


@pytest.mark.parametrize("text", ["9:00", "16:00", "3:00:00", "7201s", "2026-03-02 14:05", "25:00", "+3h"])
def test_what_lies_outside_is_answered_with_what_there_is(text: str) -> None:
    with pytest.raises(Nowhere, match=r"lies outside of what there is: 2:00:00 long, 13:02:00 to 15:02:00"):
        place(text, cursor(), from_start=True)


@pytest.mark.parametrize(
    "text", ["x", "14:5", "1:2:3:4", "--", "+", "-x", "step", "#", "1e9", "2026-13-01 10:00", "٣%x"]
)
def test_nonsense_is_answered_with_examples(text: str) -> None:
    with pytest.raises(Nowhere, match="is no place in time; try 01:23:45"):
        place(text, cursor())


def test_more_than_everything_is_refused() -> None:
    with pytest.raises(Nowhere, match="beyond the end"):
        place("101%", cursor())


@given(st.text(max_size=20), st.booleans())
def test_whatever_is_typed_leads_somewhere_or_is_answered(text: str, from_start: bool) -> None:
    found = None
    with contextlib.suppress(Nowhere):
        found = place(text, cursor(), from_start=from_start)
    if found is not None and found.step is None:
        assert found.t_ns is not None
        assert START <= found.t_ns <= START + 7200 * S


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0:00:00"), (872.9, "0:14:32"), (93_784, "26:03:04"), (-5, "0:00:00")]
)
def test_positions_look_like_a_players(seconds: float, shown: str) -> None:
    assert span(seconds) == shown


def test_a_question_is_typed_mended_and_left() -> None:
    question = Question("go to", ("14:05", "50%"))
    assert plain(question.line(30)).rstrip() == " go to    14:05  50%"
    for key in ("1", "4", "x"):
        assert question.take(key, key) is None
    question.take("backspace", "\x7f")
    question.take("left", None)
    assert question.text == "14"
    question.complaint = "no"
    assert "no" in plain(question.line(40))
    question.take("5", "5")
    assert question.complaint == ""
    assert question.take("enter", "\r") == "done"
    question.take("ctrl+u", None)
    assert question.text == ""
    assert question.take("enter", "\r") == question.take("escape", None) == question.take("backspace", None) == "left"


def test_a_pasted_novel_stays_short_and_printable() -> None:
    question = Question("go to", ())
    question.type("14\x1b[2J:\n05" + "x" * 500)
    assert question.text.startswith("14[2J:05")
    assert len(question.text) == MOST
    for width in range(1, 60):
        assert len(plain(question.line(width))) == width
