"""Keys that the configuration file has changed: they work, the old ones don't, and all that names them says so."""

from __future__ import annotations

from textual.pilot import Pilot

from gputop.tui.app import GputopApp
from gputop.tui.draw import footer
from gputop.tui.keys import described
from gputop.tui.screens import Page
from tests.tui import views
from tests.tui.ptys import Terminal
from tests.tui.test_app import drive, text_of


def test_a_changed_key_works_the_old_one_no_more_and_the_others_as_before() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("w")
        assert not isinstance(app.screen, Page)
        await pilot.press("x")
        assert isinstance(app.screen, Page)
        assert app.screen.page_name == "why"
        await pilot.press("x", "g")
        assert isinstance(app.screen, Page)
        assert app.screen.page_name == "gpus"
        await pilot.press("O")
        assert not isinstance(app.screen, Page)

    drive(views.view(), act, keys={"why": "x", "back": "O"})


def test_keys_can_be_swapped() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("g")
        assert isinstance(app.screen, Page)
        assert app.screen.page_name == "why"
        await pilot.press("w")
        assert app.screen.page_name == "gpus"

    drive(views.view(), act, keys={"why": "g", "gpus": "w"})


def test_footer_and_help_name_the_changed_keys() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        assert "% why" in text_of(app)
        assert "x quit" in text_of(app)
        await pilot.press("question_mark")
        assert "your own keys, instead of those below" in text_of(app)
        assert "Evidence for and against" in text_of(app)

    drive(views.view(), act, keys={"why": "%", "quit": "x"})


def test_faults_are_said_and_stand_on_the_page_of_sources() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        assert "config.toml has an unknown key 'them'" in text_of(app)
        assert "(2 faults: i)" in text_of(app)
        await pilot.press("i")
        assert "there is no key named 'whi'; did you mean 'why'?" in text_of(app)

    drive(views.view(), act, keys={"whi": "x"}, faults=("config.toml has an unknown key 'them'",))


def test_every_key_that_the_footer_names_has_its_binding() -> None:
    known = described()
    assert all(name in known for names in footer.IDS.values() for name in names)
    every = (*footer.LIVE, *footer.PAST, *footer.REPLAY, *footer.PAGE, *footer.LIST)
    assert {key for key, _ in every} <= set(footer.IDS)


def test_a_changed_key_quits_even_a_stalled_screen() -> None:
    with Terminal("view", "quits=x") as terminal:
        terminal.wait_for(b"confidence")
        terminal.press(b"q")
        terminal.read(0.3)
        terminal.press(b"x")
        assert terminal.ended()[0] == 0
