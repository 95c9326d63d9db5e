"""Ranks: which one is late, seen in its own time, from 2 to 1,024 of them."""

from __future__ import annotations

import time

import pytest
from msgspec.structs import replace
from textual.pilot import Pilot

from gputop.tui.app import GputopApp
from gputop.tui.draw.sight import Sight
from gputop.tui.lines import plain
from gputop.tui.pages import ranks
from gputop.tui.sheet import Standing
from gputop.view import Share, View
from tests.tui import views
from tests.tui.test_app import drive, text_of


def shown(view: View, width: int = 120, height: int = 36, **at: object) -> str:
    made = ranks.sheet(Sight(view=view, slow=view), width, height, Standing(**at))  # type: ignore[arg-type]
    return "\n".join(plain(line) for line in (*made.pinned, *made.lines))


def test_the_late_rank_is_named_with_what_it_is_late_in() -> None:
    text = shown(views.job())
    assert "the latest: rank 5, 51 ms behind the median in data · 8 of 8 ranks seen" in text
    assert "▁▁▁▁▁▇▁▁" in text


def test_a_step_that_is_as_long_for_all_does_not_hide_it() -> None:
    every = ranks.compared(ranks.job_of(views.job(), None))
    assert len({sum(share.ms for share in rank.run.ledger) for rank in every}) == 1
    assert max(every, key=lambda rank: rank.late or 0).run.run.rank == 5


def test_where_the_exchange_is_marked_a_slow_backward_pass_is_its_rank_s_own() -> None:
    runs = [
        replace(
            run, ledger=(Share("backward", 0, 80.0 if k == 2 else 40.0), Share("comm", 0, 10.0 if k == 2 else 50.0))
        )
        for k, run in enumerate(views.job(4).runs)
    ]
    latest = max(ranks.compared(runs), key=lambda rank: rank.late or 0)
    assert (latest.run.run.rank, latest.part, latest.late) == (2, "backward", 40.0)


def test_ranks_alike_and_gone_and_stalled_ones_look_so() -> None:
    alike = views.job(4, slow=-1)
    assert "about equally long" in shown(alike)
    states = ("training", "stalled", "lost", "ended")
    runs = tuple(replace(run, state=state) for run, state in zip(alike.runs, states, strict=True))
    text = shown(replace(alike, runs=runs))
    assert "▁!××" in text
    assert "2 lost or stalled" in text


def test_without_a_job_it_says_so() -> None:
    assert "no job of several ranks here" in shown(views.view())


def test_a_rank_that_was_started_anew_counts_once() -> None:
    old = views.job(2)
    fresh = replace(old.runs[1], run=replace(old.runs[1].run, run_id="again", pid=1), first_ns=views.NOW)
    job = ranks.job_of(replace(old, runs=(fresh, *old.runs)), None)
    assert [run.run.run_id for run in job] == ["r0", "again"]


def test_figures_stand_for_some_seconds_but_a_rank_that_stalls_is_seen_at_once() -> None:
    calm = views.job(4)
    runs = [replace(run, ledger=(Share("data", 90.0, 900.0),)) for run in calm.runs]
    newest = replace(calm, runs=(replace(runs[0], state="stalled"), *runs[1:]))
    page = ranks.sheet(Sight(view=newest, slow=calm, calm=calm), 120, 30, Standing())
    text = "\n".join(map(plain, [*page.pinned, *page.lines]))
    assert "stalled" in text
    assert "1 lost or stalled" in text
    assert "900 ms" not in text


@pytest.mark.parametrize("width", [20, 80, 200])
def test_a_thousand_ranks_are_shown_and_cost_little(width: int) -> None:
    view = views.job(1024, slow=700)
    began = time.perf_counter()
    text = shown(view, width, 40)
    print(f"{(time.perf_counter() - began) * 1e3:.0f} ms")
    assert "rank" in text
    if width >= 80:
        assert "rank 700" in text
        assert f"{896 if width == 80 else 840:>6} " in text.split("own time")[0]


def test_enter_on_a_rank_shows_it_sorted_by_lateness() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("a", *["greater_than_sign"] * 3, "home", "enter")
        assert "rank 5/8" in text_of(app)
        assert picture.asked == [("select", "r5")]

    drive(views.job(), act)
