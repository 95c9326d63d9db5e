"""The palette: everything by name. Themes: changed while it runs, remembered on request."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import get_args

import pytest
from textual.pilot import Pilot

from gputop.tui.app import GputopApp
from gputop.tui.options import Options, Theme
from gputop.tui.pane import Pane
from gputop.tui.screens import Page
from gputop.tui.terminal import ColorLevel, Terminal
from tests.tui import views
from tests.tui.test_app import Clock, drive, text_of
from tests.tui.test_recordings import until


def test_typed_words_choose_and_enter_does_it() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("ctrl+p")
        assert "do" in text_of(app)
        await pilot.press(*"evid", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Page)
        assert app.screen.page_name == "why"
        assert app.asking is None

    drive(views.view(), act)


def test_arrows_choose_too_and_esc_leaves() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("ctrl+p", *"pause", "enter")
        await pilot.pause()
        assert picture.asked == [("toggle",)]
        await pilot.press("ctrl+p", *"cause sync", "down", "up", "enter")
        await pilot.pause()
        assert isinstance(app.screen, Page)
        assert "Reads of device values" in text_of(app)
        await pilot.press("escape", "escape", "ctrl+p", "x", "escape")
        assert not isinstance(app.screen, Page)
        assert app.asking is None
        await pilot.press("ctrl+p", "enter")
        await pilot.pause()
        assert app.screen.page_name == "help"  # the first thing there is: not one that ends everything
        await pilot.press("escape", "ctrl+p", *"th", "enter")
        await pilot.pause()
        assert app.theme_shown == "dark"  # "theme" begins so; other names and texts only have it
        await pilot.press("ctrl+p", *"quit", "enter")
        await pilot.pause()
        assert app.return_value == 0

    drive(views.live(), act)


def test_nothing_found_does_nothing() -> None:
    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("ctrl+p", *"zzz", "enter")
        await pilot.pause()
        assert "nothing has 'zzz' in it" in text_of(app)
        await pilot.press("escape", "escape")
        assert not isinstance(app.screen, Page)

    drive(views.view(), act)


def color_of(app: GputopApp) -> object:
    """What the cause is painted in."""
    strip = app.screen.query_one("#verdict", Pane).render_line(0)
    return next(segment.style.color for segment in strip if "INPUT" in segment.text and segment.style)


def test_a_theme_is_shown_at_once_on_every_screen_and_remembered_on_request(tmp_path: Path) -> None:
    place = tmp_path / "deep" / "config.toml"

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        before = color_of(app)
        await pilot.press("T", "T")
        assert "theme light; " in text_of(app)
        assert color_of(app) != before
        assert app.screen.styles.background.hex == "#FAFAFA"
        await pilot.press("w", "T", "T", "escape")
        assert app.theme_shown == "ansi"
        assert not app.screen.styles.inline.has_rule("background")
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "theme ansi is in" in text_of(app))

    drive(views.view(), act, config=str(place))
    assert place.read_text() == 'theme = "ansi"\n'


def test_a_theme_that_cannot_be_remembered_says_why(tmp_path: Path) -> None:
    place = tmp_path / "config.toml"
    place.write_text("theme = [")

    async def act(app: GputopApp, pilot: Pilot[int], picture: views.Canned) -> None:
        await pilot.press("ctrl+t")
        await until(pilot, lambda: "not remembered: " in text_of(app))

    drive(views.view(), act, config=str(place))
    assert place.read_text() == "theme = ["


@pytest.mark.parametrize("colors", ["16", "256"])
def test_every_theme_is_worn_with_whatever_colors_there_are(colors: ColorLevel) -> None:
    async def go() -> None:
        app = GputopApp(views.Canned(views.view()), Options(refresh=3600), Terminal(colors, False), clock=Clock())
        async with app.run_test(size=(80, 24)) as pilot:
            for theme in get_args(Theme)[1:]:
                await pilot.press("T")
                assert f"theme {theme}; " in text_of(app)

    asyncio.run(go())


def test_without_colours_there_are_no_themes() -> None:
    async def go() -> None:
        app = GputopApp(views.Canned(views.view()), Options(refresh=3600), Terminal("none", False))
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.press("T")
            assert "no colours here" in text_of(app)

    asyncio.run(go())
