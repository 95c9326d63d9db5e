"""Lists: filtered, sorted, chosen from; and the pages about causes that Enter leads to."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from gputop.records import Process, Worker
from gputop.tui import book, listing, markdown
from gputop.tui.app import GputopApp
from gputop.tui.draw.sight import Sight
from gputop.tui.glyphs import FAMILIES
from gputop.tui.lines import Span, fit, plain
from gputop.tui.pages import help as help_page
from gputop.tui.pages.cause import in_order
from gputop.tui.pages.help import HERE
from gputop.tui.screens import Page
from gputop.tui.sheet import Standing
from gputop.tui.tables import Column
from tests.tui import views
from tests.tui.test_app import drive, text_of

COLUMNS = (Column("name", 8, number=False), Column("load", 6))


def entries() -> list[listing.Entry]:
    rows: tuple[tuple[str, float | None], ...] = (("beta", 2.0), ("Alpha", None), ("gamma", 10.0), ("delta", 0.0))
    return [entry(name, load) for name, load in rows]


def entry(name: str, load: float | None) -> listing.Entry:
    cells = [Span(name), Span(str(load))]
    return listing.Entry(name, (name, load), lambda: f"{name} {load}", listing.table(COLUMNS, lambda: cells))


def names(at: Standing) -> list[str]:
    return [entry.key for entry in listing.arranged(entries(), at)]


def test_numbers_sort_from_the_largest_words_from_a_and_what_is_not_known_goes_last() -> None:
    assert names(Standing()) == ["beta", "Alpha", "gamma", "delta"]
    assert names(Standing(column=0)) == ["Alpha", "beta", "delta", "gamma"]
    assert names(Standing(column=0, reverse=True)) == ["gamma", "delta", "beta", "Alpha"]
    assert names(Standing(column=1)) == ["gamma", "beta", "delta", "Alpha"]
    assert names(Standing(column=1, reverse=True)) == ["delta", "beta", "gamma", "Alpha"]
    assert names(Standing(column=7)) == names(Standing())


def test_a_filter_keeps_rows_that_have_every_word_in_any_case() -> None:
    assert names(Standing(filter="ALPHA")) == ["Alpha"]
    assert names(Standing(filter="a 10.0")) == ["gamma"]
    made = listing.draw(entries(), 60, Standing(filter="zz"), titles=("name", "load"), columns=COLUMNS)
    assert "nothing has 'zz' in it" in "\n".join(map(plain, made.lines))
    assert made.opens is None


def test_the_heading_says_what_is_sorted_by() -> None:
    made = listing.draw(entries(), 60, Standing(column=1, filter="a"), titles=("name", "load"), columns=COLUMNS)
    shown = "\n".join(map(plain, made.pinned))
    assert "load↓" in shown
    assert "/a  4 of 4   sorted by load" in shown


def test_only_what_is_looked_at_is_drawn() -> None:
    drawn = []

    def one(index: int) -> listing.Entry:
        def draw(width: int, mark: str) -> list[Any]:
            drawn.append(index)
            return [fit([Span(f"{mark}{index}.{part}")], width) for part in range(1 + index % 3)]

        return listing.Entry(str(index), (index,), lambda: "", draw, high=1 + index % 3)

    every = [one(index) for index in range(1000)]
    lines = listing.draw(every, 20, Standing(key="7"), titles=("number",), pick=True).lines
    assert len(lines) == sum(1 + index % 3 for index in range(1000))
    whole = [plain(line).strip() for line in lines[0:30]]
    assert whole[:4] == ["0.0", "1.0", "1.1", "2.0"]
    assert "▸7.1" in whole
    drawn.clear()
    assert [plain(line).strip() for line in lines[4:9]] == whole[4:9]
    assert len(drawn) <= 5
    assert plain(lines[12]).strip() == whole[12]
    assert lines[5:5] == []
    assert len(lines[1990:]) == len(lines) - 1990


def processes() -> Any:
    workers = [Worker(pid=50 + k, cpu_pct=float(10 * k), state="S" if k else "D") for k in range(4)]
    process = Process(t=0, host="h", pid=4242, cpu_pct=25.0, name="python", workers=workers)
    return views.view(runs=(views.run_view(process=process),))


def order_of(shown: str, *texts: str) -> list[int]:
    return [shown.index(text) for text in texts]


def test_processes_are_filtered_as_one_types_and_sorted_by_a_key() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("p", "slash", *"worker")
        assert "train.py" not in text_of(app).split("process", 1)[1]
        assert "/worker  4 of 5" in text_of(app)
        await pilot.press("enter", *["greater_than_sign"] * 3)
        assert "sorted by CPU" in text_of(app)
        found = order_of(text_of(app), "worker 3", "worker 2", "worker 1", "worker 0")
        assert found == sorted(found)
        await pilot.press("I")
        found = order_of(text_of(app), "worker 0", "worker 1", "worker 2", "worker 3")
        assert found == sorted(found)
        await pilot.press("escape")
        assert isinstance(app.screen, Page)
        assert "train.py" in text_of(app)
        await pilot.press("escape", "p")
        assert "sorted by CPU, reversed" in text_of(app)

    drive(processes(), act)


def test_esc_while_a_filter_is_typed_ends_it() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("p", "slash", *"zzz")
        assert "nothing has 'zzz' in it" in text_of(app)
        await pilot.press("escape")
        assert isinstance(app.screen, Page)
        assert "worker 3" in text_of(app)

    drive(processes(), act)


def test_a_gpu_is_found_by_the_process_on_it() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("g", "slash", *"gpu-1", "enter")
        shown = text_of(app)
        assert "1 of 3" in shown
        assert "GPU 1" in shown
        assert "GPU 2" not in shown

    drive(views.many_gpus(3), act)


@pytest.mark.parametrize("page", ["w", "i", "question_mark"])
def test_where_there_is_no_list_it_is_said(page: str) -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        for key in ("slash", "greater_than_sign"):
            await pilot.press(page, key)
            assert "there is none here" in text_of(app)
            await pilot.press("escape")

    drive(views.view(), act)


def test_enter_on_a_run_shows_it() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("r", "down", "down", "up", "enter")
        assert not isinstance(app.screen, Page)
        assert picture.asked == [("select", "r1")]
        assert "run 2 of 3" in text_of(app)

    drive(views.many_runs(3), act)


def test_a_chosen_row_stays_chosen_when_the_order_changes_and_is_kept_in_sight() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("r", *["down"] * 7)
        assert isinstance(app.screen, Page)
        assert app.screen.at.key == "r7"
        await pilot.press("greater_than_sign")
        picture.shown = msgspec.structs.replace(picture.shown, runs=tuple(reversed(picture.shown.runs)))
        app.tick()
        assert "▸" in text_of(app)
        assert app.screen.at.key == "r7"

    drive(views.many_runs(8), act, (80, 10))


def test_from_the_verdict_to_its_page_to_another_cause_and_back() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("w", "enter")
        assert "The loader has too few workers" in text_of(app)
        assert "enter all causes" in text_of(app)
        await pilot.press("enter")
        assert "first those that input-workers may be taken for" in text_of(app)
        await pilot.press("enter")
        assert "saturate the cores" in text_of(app)
        await pilot.press("escape", "escape", "escape")
        assert isinstance(app.screen, Page)
        assert app.screen.page_name == "why"
        await pilot.press("escape")
        assert not isinstance(app.screen, Page)

    drive(views.view(), act)


def test_enter_on_the_overview_says_why() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("enter", "enter")
        assert "The loader has too few workers" in text_of(app)

    drive(views.view(), act)


def test_every_cause_has_its_page_and_its_row() -> None:
    assert {name for _, name, _ in book.listed()} == set(FAMILIES)
    for name in FAMILIES:
        text = book.text_of(name)
        assert text is not None
        assert sorted(in_order(text).split()) == sorted(text.split())
        for width in (20, 40, 80):
            shown = [plain(line) for line in markdown.lines(text, width)]
            assert not any("](" in line or "**" in line or "`" in line for line in shown), name


def test_what_helps_stands_before_the_thresholds() -> None:
    text = in_order(book.text_of("input-workers") or "")
    assert text.index("## What to do") < text.index("## What fools it") < text.index("## Thresholds")


@pytest.mark.parametrize("name", ["", "../README", "README", "no-such", "a" * 100, "SYNC", "x\x00"])
def test_no_other_file_is_read_as_a_page(name: str) -> None:
    assert book.text_of(name) is None


def test_markdown_in_lines() -> None:
    text = "# Head\n\nSome **bold** and `code`, [link](x.md).\n\n- one\n  more\n- two\n\n```\na\n\nb\n```\n\n1. first"
    shown = [plain(line).rstrip() for line in markdown.lines(text, 60)]
    assert shown == [
        " Head", "", "   Some bold and code, link.", "", "   ∙ one more", "   ∙ two", "", "    │ a", "    │", "    │ b",
        "", "  1. first", "",
    ]  # fmt: skip


def test_help_is_first_for_the_page_it_was_asked_for_on_and_leads_back_to_it() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        for key, name in (("w", "why"), ("g", "gpus"), ("a", "ranks"), ("z", "zoom"), ("o", "recordings")):
            await pilot.press(key, "question_mark")
            assert f"here: {name}" in text_of(app)
            assert HERE[name][:20] in text_of(app)
            await pilot.press("escape")
            assert isinstance(app.screen, Page)
            assert app.screen.page_name == name
        await pilot.press("escape", "question_mark")
        assert not any(f"here: {name}" in text_of(app) for name in HERE)
        await pilot.press("question_mark")
        assert not isinstance(app.screen, Page)

    drive(views.job(), act)


def test_help_says_all_of_every_line_at_80_columns() -> None:
    for view in (views.view(), views.replay()):
        lines = [plain(line) for line in help_page.draw(Sight(view=view, slow=view), 80)]
        assert not [line for line in lines if "…" in line]
        assert any(line.startswith("   +  ") for line in lines)
